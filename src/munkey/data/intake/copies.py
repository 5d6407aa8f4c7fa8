"""Copies of a sample that do not go together: of two classes, or of two persons."""

from collections.abc import Hashable, Sequence


def copies_apart(
    contents: Sequence[Hashable], groups: Sequence[Hashable | None], kind: str, names: Sequence[str]
) -> str:
    """What to say of equal samples in different groups; empty where there are none.

    Parameters
    ----------
    contents : sequence, length n
        What is equal for equal samples: a digest, or the sample itself.
    groups : sequence, length n
        The class or the unit of each; None: of none.
    kind : str
        What the groups are: "class" or "unit".
    names : sequence of str, length n
        How the message names a sample.
    """
    first: dict[Hashable, int] = {}
    apart: dict[Hashable, tuple[int, int]] = {}  # by content, the first two samples that differ
    for number, (content, group) in enumerate(zip(contents, groups, strict=True)):
        if group is None:
            continue
        earlier = first.setdefault(content, number)
        if groups[earlier] != group:
            apart.setdefault(content, (earlier, number))
    if not apart:
        return ""
    pairs = list(apart.values())[:2]
    examples = "; ".join(
        f"{names[one]} ({groups[one]}) and {names[other]} ({groups[other]})" for one, other in pairs
    )
    several = {"class": "classes", "unit": "units"}[kind]
    count = "1 sample is" if len(apart) == 1 else f"{len(apart):,} samples are"
    return (
        f"{count} in two {several} or more, in exact copies: {examples}. Each copy is a sample"
        " of its own, which"
        f" forgetting the other {kind} leaves"
    )
