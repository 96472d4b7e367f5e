"""What a reader must know beside the route, in sentences; and which call adds what is missing."""

from __future__ import annotations

from twoaxis.diagnosis.case import Case
from twoaxis.diagnosis.decision_map import Route, Verdict

# A gap below this share of the tolerated displacement is no gap to speak of.
NO_GAP = 0.2


def collect_messages(case: Case, verdict: Verdict) -> list[str]:
    """Return the messages of an audit, the most consequential first."""
    told = [
        *_view(case),
        *_trust(case),
        *_directions(case),
        *_small_gap(case, verdict),
        *_lucky_draw(case, verdict),
        *_gap_beside(case, verdict),
        *_axis_one(case),
        *_missing(case),
    ]
    # A message is one line, whatever it quotes.
    return list(dict.fromkeys(" ".join(text.split()) for text in told))


def _view(case: Case) -> list[str]:
    audited, trained = case.audited.score.view, case.training.score.view
    if case.relation == "another view":
        return [
            f"the view ({audited}) is not the one that the field was trained under ({trained}): "
            "delivery is read under the training view alone, and its figures stand beside"
        ]
    if case.relation == "taken as the training view":
        return [
            "the view is taken as the one that the field was trained under, in which alone "
            "delivery can be read: twoaxis.FrozenResidual(..., view=...) would settle it"
        ]
    return []


def _trust(case: Case) -> list[str]:
    told = [f"the local reading is in doubt: {text}" for text in case.audited.score.doubts]
    scan = case.audited.scan
    scanned = scan.error_percent
    if scanned is None:
        return told
    if case.tolerance is not None:
        limit = case.tolerance.preference
        for name in case.parameters:
            local = case.audited.preference(name)
            if local is not None and (local > limit) != (scanned[name] > limit):
                told.append(
                    f"local reading and frozen scan fall on different sides of the tolerated "
                    f"displacement of {name}: {local:.3g} and {scanned[name]:.3g} percent; the "
                    "route follows the local one"
                )
    basins = scan.local_minima
    if len(basins) > 1 and not bool(basins["holds_center"].iloc[0]):
        told.append(
            "the lowest minimum of the frozen profile lies in another basin than the centre: the "
            "local reading does not speak of it"
        )
    return told


def _directions(case: Case) -> list[str]:
    if len(case.parameters) == 1:
        return []
    told = []
    found = case.directions
    for k, status in enumerate(found.status):
        words = found.in_words(k, list(case.parameters))
        if status == "null":
            told.append(f"the residual does not see the direction {words}")
        if status == "weak":
            share = found.strength[k] / found.strength[-1]
            told.append(
                f"the direction {words} is weak: {share:.2g} of the strength of the strongest"
            )
    return told


def _small_gap(case: Case, verdict: Verdict) -> list[str]:
    """Around a truth, delivery may be the last suspect and still be clean."""
    clean = (
        case.around_truth
        and case.tolerance is not None
        and case.delivery is not None
        and verdict.route is Route.INSPECT_ENDPOINT_DELIVERY
    )
    if not clean or case.delivery is None or case.tolerance is None:
        return []
    largest = max(map(abs, case.delivery.gap_percent.values()))
    if largest > NO_GAP * case.tolerance.preference:
        return []
    return [
        f"the delivery gap is only {largest:.2g} percent: the displacement that is tolerated is "
        "most of the delivered error; a smaller Tolerance(preference=...) would show it, and "
        "the specification of the model is the other suspect"
    ]


def _lucky_draw(case: Case, verdict: Verdict) -> list[str]:
    """An error that does not matter may be owed to one draw of the noise."""
    if verdict.route is not Route.WITHIN_TOLERANCE or case.seen is None or case.tolerance is None:
        return []
    limit = case.tolerance.resolution
    weak = {n: case.seen.percent(n) for n in case.center.values if case.seen.percent(n) > limit}
    often = "on average" if case.tolerance.statistic == "mean" else "or more in one draw of ten"
    return [
        f"the delivered {name} is tolerable for these data, but the observations are weak: a fit "
        f"of the solver to another draw of the noise is off by {value:.3g} percent {often}"
        for name, value in weak.items()
    ]


def _gap_beside(case: Case, verdict: Verdict) -> list[str]:
    """A route for the field does not say that training delivered what the field prefers."""
    about_the_field = (
        Route.STRENGTHEN_RESIDUAL_EVIDENCE,
        Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE,
        Route.IMPROVE_OBSERVATIONS,
    )
    if case.delivery is None or case.tolerance is None or verdict.route not in about_the_field:
        return []
    return [
        f"delivery is off as well: the gap of {name} is {gap:+.3g} percent, more than the "
        f"{case.tolerance.preference:g} percent that are tolerated for a displacement"
        for name, gap in case.delivery.gap_percent.items()
        if abs(gap) > case.tolerance.preference
    ]


def _axis_one(case: Case) -> list[str]:
    if case.seen is None:
        return case.matching.messages
    resolution = case.seen.resolution
    told = list(case.matching.messages)
    away = [
        f"{name} = {value:.4g}"
        for name, value in zip(resolution.parameters, resolution.data["center"].values, strict=True)
        if abs(value - case.center.values[name]) > 1e-9 * abs(value)
    ]
    if away:
        told.append(
            f"the replicas of the resolution were simulated at {', '.join(away)}, not at the "
            "centre of the audit"
        )
    if case.seen.layout is None and len(resolution.layout_names) > 1:
        told.append(
            f"the resolution is that of {len(resolution.layout_names)} layouts together; "
            f'layout="{resolution.layout_names[0]}" would take one'
        )
    for text in resolution.messages:
        told.append(f"resolution: {text}")
    if not case.around_truth:
        told = [text.replace("standard error", "standard deviation") for text in told]
    return told


def _missing(case: Case) -> list[str]:
    told = []
    if case.tolerance is None:
        told.append(
            "no tolerance declared, and so no route: add tolerance=twoaxis.Tolerance("
            "material=5.0, resolution=5.0, preference=5.0), in percent, with numbers of your own"
        )
    if case.seen is None:
        told.append(
            "no resolution given: what the observations can resolve is not known; add "
            "resolution=twoaxis.resolve(forward, parameters, noise=...)"
        )
    elif case.matching.matched is None and not case.matching.messages:
        told.append(
            "no data given: the delivered value is not simulated again; add data=... with the "
            "observed values"
        )
    if case.delivered is None:
        told.append(
            "no delivered value: delivery cannot be read; add Parameter(delivered=..., bounds=...)"
        )
    if not case.around_truth:
        told.append(
            f"around a {'candidate' if case.center.kind == 'delivered' else 'chosen point'} the "
            "evidence column of the decision map stays undetermined: the displacement speaks of "
            "stability and delivery, not of where the parameter should be"
        )
    return told
