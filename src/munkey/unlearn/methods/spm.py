"""Deep semi-parametric models (Zheng, Tai & Yeh 2026; beyond the paper): delete the rows of D_f."""

from typing import cast

from munkey.models.families.spm import SpmFamily
from munkey.models.family import FAMILIES, System
from munkey.settings import Section
from munkey.unlearn.contract import Request, method


@method(
    "spm",
    title="SPM",
    description="delete the forget set's rows and average each class again",
    citation=(
        "A. Y. Zheng, Y.-S. Tai, R. A. Yeh. *Designing to Forget: Deep Semi-parametric Models for"
        " Unlearning*. CVPR 2026"
    ),
    family="spm",
)
def spm(system: System, request: Request, settings: Section) -> System:
    memory = system.require_memory().forget(request.forget_ids)
    return cast(SpmFamily, FAMILIES["spm"]).replace_memory(system, memory)
