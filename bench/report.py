"""The table that `make bench` prints: medians and ranges, ratios to the hand-made table, and which floor and goal holds."""

import os
from collections.abc import Callable, Mapping, Sequence

from bench.measured import Load, Summary, summed
from bench.rebuilding import Rebuild

Loads = Mapping[str, Sequence[Load]]


def of(loads: Loads, rebuilds: Mapping[str, Rebuild], imports: Mapping[str, tuple[float, float]]) -> str:
    lines = ["", f"{'':12} {'op/s':>26} {'p50 ms':>24} {'p99 ms':>26} {'CPU ms/op':>20}"]
    for name, runs in loads.items():
        rate, p50, p99 = _of(runs, lambda run: run.rate), _of(runs, lambda run: run.p50), _of(runs, lambda run: run.p99)
        cpu = _of(runs, lambda run: run.cpu_total)
        lines.append(f"{name:12} {rate.shown(0):>26} {p50.shown():>24} {p99.shown():>26} {cpu.shown():>20}")
    lines += ["", "CPU ms/op by process"]
    for name, runs in loads.items():
        median = {part: summed([run.cpu[part] for run in runs]).median for part in runs[0].cpu}
        parts = "  ".join(f"{part} {spent:.2f}" for part, spent in median.items())
        lines.append(f"{name:12} {parts}")
    lines += ["", "From asking to the start of the effect (the verdict), ms"]
    for name, runs in loads.items():
        if runs[0].verdict_p50:
            p50, p99 = _of(runs, lambda run: run.verdict_p50), _of(runs, lambda run: run.verdict_p99)
            lines.append(f"{name:12} p50 {p50.shown()}  p99 {p99.shown()}")
    for name, one in rebuilds.items():
        lines += [
            "",
            f"Rebuild, {name}: {one.events:,} events in {one.seconds:.1f} s = {one.rate:,.0f}/s, {1e6 / one.rate:.1f} us each",
        ]
        whole = one.cpu_s / one.events * 1e6
        stages = {**one.stages_us, "COPY, statements, start": whole - sum(one.stages_us.values())}
        lines.append(
            f"  CPU of the folding process {whole:.1f} us an event: "
            + ", ".join(f"{stage} {took:.1f}" for stage, took in stages.items())
        )
    lines += [
        "",
        f"Load of the machine at the end: {', '.join(f'{one:.1f}' for one in os.getloadavg())} ({os.cpu_count()} cores)",
    ]
    lines += [f"import of {name}: {took:.0f} ms, {size:.1f} MiB" for name, (took, size) in imports.items()]
    lines += ["", f"{'':34} {'measured':>10} {'floor':>10} {'goal':>10}", *_judged(loads, rebuilds)]
    return "\n".join(lines)


def _of(runs: Sequence[Load], field: Callable[[Load], float]) -> Summary:
    return summed([field(run) for run in runs])


def _judged(loads: Loads, rebuilds: Mapping[str, Rebuild]) -> list[str]:
    def rate(name: str) -> Summary:
        return _of(loads[name], lambda run: run.rate)

    def cpu(name: str) -> float:
        return _of(loads[name], lambda run: run.cpu_total).median

    # Run by run: a machine under other load slows down both.
    at_64 = summed([ours.rate / theirs.rate for ours, theirs in zip(loads["ledger 64"], loads["table 64"], strict=True)])
    best = max(rate(name).median for name in loads if name.startswith("table"))
    alone = summed([ours.p50 / theirs.p50 for ours, theirs in zip(loads["ledger 1"], loads["table 1"], strict=True)])
    lines = [
        _line("rate, 64 callers / table's", at_64.median, 0.7, 1.3),
        _line("rate, 256 callers / table's best", rate("ledger 256").median / best, 1.2, 2.5),
        _line("CPU, 256 callers / table's with 64", cpu("ledger 256") / cpu("table 64"), 1.5, 0.6, less=True),
        _line("p50 of one caller / table's", alone.median, 6.0, 4.0, less=True),
    ]
    return lines + [_line(f"rebuild, {name}, events/s", one.rate, 25_000, 60_000) for name, one in rebuilds.items()]


def _line(name: str, value: float, floor: float, goal: float, *, less: bool = False) -> str:
    def holds(bound: float) -> bool:
        return value <= bound if less else value >= bound

    word = "goal reached" if holds(goal) else "floor holds" if holds(floor) else "BELOW ITS FLOOR"
    digits = 0 if floor > 1000 else 2
    return f"{name:34} {value:>10,.{digits}f} {floor:>10,.{digits}f} {goal:>10,.{digits}f}   {word}"
