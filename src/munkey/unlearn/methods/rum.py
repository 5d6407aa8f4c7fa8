"""RUM (Zhao et al. 2024; beyond the paper): a method for each third of D_f, by memorization."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from munkey.models.family import System
from munkey.settings import Section
from munkey.unlearn.contract import Request, Run, TuningSettings, method
from munkey.unlearn.methods.cf import cf
from munkey.unlearn.methods.neggrad_plus import NegGradPlusSettings, neggrad_plus
from munkey.unlearn.methods.salun import SalunSettings, salun

STEP_METHODS: dict[str, Run[Any]] = {"cf": cf, "neggrad-plus": neggrad_plus, "salun": salun}


class CfStep(TuningSettings):
    method: Literal["cf"]


class NegGradPlusStep(NegGradPlusSettings):
    method: Literal["neggrad-plus"]


class SalunStep(SalunSettings):
    method: Literal["salun"]


Step = Annotated[CfStep | NegGradPlusStep | SalunStep, Field(discriminator="method")]


class RumSettings(Section):
    """The section `unlearn.rum` of params.yaml."""

    low: Step | None
    mid: Step | None
    high: Step | None


@method(
    "rum",
    title="RUM",
    description=(
        "forget three parts of the forget set one after the other, from the least to the most"
        " memorized, each with its own method"
    ),
    citation=(
        "K. Zhao, M. Kurmanji, G.-O. Bărbulescu, E. Triantafillou, P. Triantafillou. *What "
        "Makes Unlearning Hard and What to Do About It*. NeurIPS 2024"
    ),
    family="vit",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=RumSettings,
    # The loss of each forget sample, and at most the passes of NegGrad+ for each of the thirds.
    passes=lambda images, _: images.forget + 18 * images.epochs * images.retain,
)
def rum(system: System, request: Request, settings: RumSettings) -> System:
    """Forget the thirds of D_f one after the other, each with its own method."""
    from munkey.unlearn.finetune import split_by_loss

    unlearned = replace(system, model=system.copy_model().eval())
    # The loss of the original approximates memorization: samples with a low loss come first.
    thirds = split_by_loss(unlearned, request, part_count=3)
    steps = (settings.low, settings.mid, settings.high)
    for forget, step in zip(thirds, steps, strict=True):
        if step is None or not len(forget):
            continue
        data = request.data | {"forget": forget}
        step_request = replace(request, forget_ids=forget.ids, data=data, history=[])
        unlearned = STEP_METHODS[step.method](unlearned, step_request, step)
        completed_epochs = len(request.history)
        for record in step_request.history:
            request.history.append(record | {"epoch": completed_epochs + record["epoch"]})
    return unlearned
