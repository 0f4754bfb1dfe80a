"""Names of flow runs, from the parameters of the run that is being started."""

from prefect.runtime import flow_run

from onnxdyno.domain.text import printable


def device_name() -> str:
    """The device that was asked for, safe to print."""
    return printable(str(flow_run.parameters.get("device_id") or "cpu"))
