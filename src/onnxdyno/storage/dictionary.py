"""The data dictionary docs/tables.md, made from the row types and the schemas."""

import inspect
import sys

from onnxdyno.storage.tables import PARTITION, ROW_TYPES, SCHEMAS

_HEAD = """# The published tables

Made from the code by `python -m onnxdyno.storage.dictionary > docs/tables.md`; a test holds it equal.

`tables/<table>/device_class=<device class>/<run id>.parquet` under the results prefix: one immutable file per run and
table, zstd. The row in `runs` is written last: it is the commit, and a run without it does not exist
(`onnxdyno query` reads only committed runs; other readers join on `runs.run_id`). A file under `tables/runs` without
one of the same name in `points` that can be read and is not the row of that run is left out with a line of warning; one
that cannot be read may be a damaged run, and the query fails with its name. Null means: not measured, and a reason
stands beside it. Units are in the column names. `axes` holds the size of every dynamic axis by its own name; `batch`,
`height_px`, `width_px` and `sequence` repeat the common ones by role. Text that is not valid Unicode (names of files)
has its bytes escaped.

```sql
SELECT model_name, p.batch, p.p50_ms, p.p50_ms_low, p.p50_ms_high, p.n, p.launches, p.state
FROM points p JOIN runs USING (run_id) WHERE p.variant = 'device' ORDER BY model_name, p.batch;
```
"""


def markdown() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(_section(table) for table in SCHEMAS)])


def _section(table: str) -> str:
    lines = [f"## {table}", inspect.getdoc(ROW_TYPES[table]) or "", "", "| column | type | null | meaning |"]
    lines.append("|---|---|---|---|")
    for field in SCHEMAS[table]:
        kind = str(field.type).replace("|", "\\|").replace(" not null", "")
        name = f"{field.name} (partition)" if field.name == PARTITION else field.name
        text = field.metadata[b"description"].decode()
        lines.append(f"| {name} | `{kind}` | {'yes' if field.nullable else 'no'} | {text} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
