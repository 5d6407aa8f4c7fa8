"""Exact copies of a sample in different classes or units."""

from collections.abc import Hashable, Sequence


def format_conflicting_copies_warning(
    contents: Sequence[Hashable], groups: Sequence[Hashable | None], kind: str, names: Sequence[str]
) -> str:
    """Format a warning about equal samples in different groups; empty if there are none.

    Parameters
    ----------
    contents
        The samples or their digests.
    groups
        The class or unit of each sample; None for a sample without one.
    kind
        "class" or "unit".
    names
        The name of each sample in the message.
    """
    first_by_content: dict[Hashable, int] = {}
    # By content, the first two samples in different groups.
    conflicts: dict[Hashable, tuple[int, int]] = {}
    for number, (content, group) in enumerate(zip(contents, groups, strict=True)):
        if group is None:
            continue
        earlier = first_by_content.setdefault(content, number)
        if groups[earlier] != group:
            conflicts.setdefault(content, (earlier, number))
    if not conflicts:
        return ""
    pairs = list(conflicts.values())[:2]
    examples = "; ".join(
        f"{names[first]} ({groups[first]}) and {names[second]} ({groups[second]})"
        for first, second in pairs
    )
    plural = {"class": "classes", "unit": "units"}[kind]
    count = "1 sample is" if len(conflicts) == 1 else f"{len(conflicts):,} samples are"
    return (
        f"{count} in two or more {plural}, as exact copies: {examples}. Each copy is a separate"
        f" sample, which stays when the other {kind} is forgotten"
    )
