"""The sentences of polishing: what became of the gap, and what of the parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twoaxis.remedies.polish.stages import Stage

if TYPE_CHECKING:
    from twoaxis.remedies.polish.result import Polish

# From so many percent on, a gap has closed; below the second number it has not.
CLOSED, HALF = 90.0, 50.0
# A loss that falls by this many percent was far from its minimum, whatever the gap.
UNFINISHED = 25.0
# Smaller gaps, in percent, are not told apart.
NOTHING = 0.01


def verdict_sentence(found: Polish) -> str:
    """Say how much of the gap was optimisation."""
    gaps = found.gap_before
    if gaps is None:
        return _no_gap(found.before, "delivered field") + _gap_now(found)
    largest = max(gaps, key=lambda name: abs(gaps[name]))
    if found.little_to_gain:
        near = (
            f"the delivered {largest} lies {abs(gaps[largest]):.2g}% from what its own field "
            "prefers"
        )
        if found.loss_fall_percent >= UNFINISHED:
            return (
                f"There was little gap to close: {near}. But the field was not trained to its end, "
                f"which a gap does not show: the loss fell by {found.loss_fall_percent:.0f}%."
            )
        return f"There was little to gain: {near}."
    if found.finish is None:
        return (
            f"The delivered {largest} lies {_side(gaps[largest])} what its own field prefers. "
            "Whether that was optimisation only a joint finishing tells: pass objective=."
        )
    after, closed = found.gap_after, found.closed_percent
    if after is None or closed is None:
        return _no_gap(found.finish.stage, "finished field")
    change = f"from {gaps[largest]:+.3g}% to {_small(after[largest])}"
    if closed[largest] >= CLOSED:
        return f"The gap was optimisation: it closed by {closed[largest]:.0f}%, {change}."
    if closed[largest] >= HALF:
        return (
            f"Most of the gap was optimisation: it closed by {closed[largest]:.0f}%, {change}"
            f"{_unfinished(found)}."
        )
    return (
        f"The gap did not close: it went {change}{_unfinished(found)}. Look for another basin in "
        "the frozen scan, and at whether the view is the one of the training."
    )


def parameter_sentence(found: Polish) -> str:
    """Say what became of the parameter itself: delivering a preference does not make it true."""
    last = found.before.at_minimum() if found.finish is None else found.finish.stage
    if found.finish is None and found.before.preferred is None:
        return "The parameter was not moved."
    what = "At the frozen minimum" if found.finish is None else "After joint finishing"
    moved = ", ".join(
        f"{name} = {value:.4g} (delivered: {found.delivered[name]:.4g})"
        for name, value in last.values.items()
    )
    before, after = found.before.error_percent, last.error_percent
    errors = ", ".join(
        f"the error of {name} went from {before[name]:+.3g}% to {after[name]:+.3g}%"
        for name in after
    )
    fall = f", the loss {found.loss_fall_percent:.2g}% lower" if found.finish is not None else ""
    told = f"{what} {moved}{fall}" + (f"; {errors}" if errors else "") + ". "
    return told + (
        "Polishing delivers what the loss asks for, and that need not be the true parameter."
    )


def _small(gap: float) -> str:
    """Say a gap that may be zero but for the last digits of an optimiser."""
    return f"{gap:+.2g}%" if abs(gap) >= NOTHING else f"less than {NOTHING}%"


def _side(gap: float) -> str:
    return f"{abs(gap):.3g}% {'above' if gap > 0 else 'below'}"


def _unfinished(found: Polish) -> str:
    if found.finish is None or found.finish.converged:
        return ""
    return f" after {found.finish.iterations} iterations, which did not converge"


def _no_gap(stage: Stage, whose: str) -> str:
    if stage.preferred is None:
        return f"There is no gap to close: the {whose} does not see the parameter ({stage.status})."
    return (
        f"There is no gap to measure: the profile of the {whose} has no minimum inside the bounds, "
        f"nor far outside of them. It ends {stage.status}."
    )


def _gap_now(found: Polish) -> str:
    """Say what the gap is after finishing, where there was none to compare it with."""
    after = found.gap_after
    if after is None:
        return ""
    return (
        " After joint finishing the gap is "
        + ", ".join(f"{_small(gap)} in {name}" for name, gap in after.items())
        + "."
    )
