"""One row per requirement tier."""

from onnxdyno.domain.findings import Findings, Tier
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.storage.rows.columns import at, estimate, key
from onnxdyno.storage.rowtypes import RequirementRow


def requirement_rows(run: BenchmarkRun, findings: Findings) -> tuple[RequirementRow, ...]:
    """One row per tier."""
    return tuple(_requirement(run, tier) for tier in findings.tiers)


def _requirement(run: BenchmarkRun, tier: Tier) -> RequirementRow:
    return RequirementRow(
        **key(run),
        tier=tier.tier,
        catalogue_id=tier.device_id,
        catalogue_name=tier.device_name,
        memory_bytes=tier.memory_bytes,
        needed_bytes=tier.needed_bytes,
        **at(run.signature, tier.sizes),
        basis=tier.basis,
        reason=tier.reason,
        evidence=tier.evidence,
        **estimate("latency", tier.latency_ns),
        probability=tier.probability,
        ordered_by=tier.order,
        price=tier.price,
        price_currency=tier.price_currency,
        price_date=tier.price_date,
        ties=tier.ties,
    )
