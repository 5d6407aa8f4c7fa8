"""Nearest class mean: to forget is to drop rows, and to take the means of those left."""

from munkey.models.family import System, forgotten
from munkey.settings import Section
from munkey.unlearn.contract import Request, method


@method(
    "ncm",
    title="NCM",
    description="drop the forget set's rows, take the class means of those left",
    citation="Mensink et al. 2013",
    family="ncm",
)
def ncm(system: System, request: Request, settings: Section) -> System:
    return forgotten(system, request.forget_ids)
