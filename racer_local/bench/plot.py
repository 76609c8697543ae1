"""Pictures of reports: × against plain decoding by kind and method, and cost curves."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from racer_local.bench.results import OFF
from racer_local.errors import RacerError, UsageError
from racer_local.text_file import read_text

PANEL_INCHES = (9.0, 3.6)


def draw(files: Sequence[Path], out: Path) -> None:
    """Draw a panel for each report.

    Args:
        files: Reports of `racer-bench` run, simulate, peer or cost.
        out: Picture to write; its ending says which kind.

    Raises:
        UsageError: A file is no report, or matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise UsageError("plotting needs matplotlib: pip install matplotlib") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    reports = [_read(file) for file in files]
    width, height = PANEL_INCHES
    figure, axes = pyplot.subplots(len(reports), 1, figsize=(width, height * len(reports)), squeeze=False)
    for axis, (file, report) in zip(axes[:, 0], zip(files, reports, strict=True), strict=True):
        if "curves" in report:
            _curves(axis, report)
        else:
            _ratios(axis, report)
        axis.set_title(report.get("model") or report.get("curve") or file.stem, fontsize=9)
    figure.tight_layout()
    try:
        figure.savefig(out)
    except (OSError, ValueError) as error:
        raise RacerError(f"cannot write {out}: {error}") from error
    pyplot.close(figure)


def _read(file: Path) -> dict[str, Any]:
    text = read_text(file)
    try:
        report = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{file} is no JSON ({error})") from error
    if not isinstance(report, dict) or not (report.get("summary") or report.get("curves")):
        raise UsageError(f"{file} is no report of racer-bench run, simulate, peer or cost with results in it")
    return report


def _ratios(axis: Any, report: dict[str, Any]) -> None:
    summary = report["summary"]
    kinds = list(summary)
    methods = [m for m in summary[kinds[0]] if m != OFF]
    bar = 0.8 / max(len(methods), 1)
    for i, method in enumerate(methods):
        cells = [summary[kind][method] for kind in kinds]
        heights = [cell["total_ratio"] or 0.0 for cell in cells]
        below = [max(0.0, h - (c["low"] or h)) for h, c in zip(heights, cells, strict=True)]
        above = [max(0.0, (c["high"] or h) - h) for h, c in zip(heights, cells, strict=True)]
        places = [k + (i - (len(methods) - 1) / 2) * bar for k in range(len(kinds))]
        axis.bar(places, heights, bar, label=method, yerr=[below, above], error_kw={"linewidth": 0.6})
    axis.axhline(1.0, color="black", linewidth=0.8)
    axis.set_xticks(range(len(kinds)), kinds, rotation=20, ha="right", fontsize=8)
    axis.set_ylabel("× plain decoding")
    axis.legend(fontsize=8, ncols=4)


def _curves(axis: Any, report: dict[str, Any]) -> None:
    for curve in report["curves"]:
        flash = "flash attention" if curve["flash_attn"] else "no flash attention"
        axis.plot(curve["n"], curve["ratio"], label=f"{curve['context']} tokens, {flash}", linewidth=1.2)
    axis.set_xlabel("tokens in one decode")
    axis.set_ylabel("time over one token's")
    axis.grid(linewidth=0.3)
    axis.legend(fontsize=8)
