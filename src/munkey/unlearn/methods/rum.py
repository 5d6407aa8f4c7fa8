"""RUM (Zhao et al. 2024; beyond the paper): unlearn the thirds of D_f, by memorization, in turn."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from munkey.models.family import System
from munkey.settings import Section
from munkey.unlearn.contract import Request, Run, TuningSettings, method
from munkey.unlearn.methods.cf import cf
from munkey.unlearn.methods.neggrad_plus import NegGradPlusSettings, neggrad_plus
from munkey.unlearn.methods.salun import SalunSettings, salun

RUN: dict[str, Run[Any]] = {"cf": cf, "neggrad-plus": neggrad_plus, "salun": salun}


class CfStep(TuningSettings):
    method: Literal["cf"]


class NegGradPlusStep(NegGradPlusSettings):
    method: Literal["neggrad-plus"]


class SalunStep(SalunSettings):
    method: Literal["salun"]


Step = Annotated[CfStep | NegGradPlusStep | SalunStep, Field(discriminator="method")]


class RumSettings(Section):
    """The method's section of params.yaml.

    Attributes
    ----------
    low, mid, high
        The method for each third of D_f, from least to most memorized; None skips it.
    """

    low: Step | None
    mid: Step | None
    high: Step | None


@method(
    "rum",
    title="RUM",
    description=(
        "forget in three steps, each with its own method: first what is least memorized, last"
        " what is most"
    ),
    citation=(
        "K. Zhao, M. Kurmanji, G.-O. Bărbulescu, E. Triantafillou, P. Triantafillou. *What "
        "Makes Unlearning Hard and What to Do About It*. NeurIPS 2024"
    ),
    family="vit",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=RumSettings,
    passes=lambda images, _: images.forget + 18 * images.epochs * images.retain,
)
def rum(system: System, request: Request, settings: RumSettings) -> System:
    """Forget the thirds of D_f in sequence, each with the method for its level of memorization."""
    from munkey.unlearn.finetune import split_by_loss

    unlearned = replace(system, model=system.copy_model().eval())
    # A low loss of the original is used as a proxy for little memorization.
    thirds = split_by_loss(unlearned, request, 3)
    steps = (settings.low, settings.mid, settings.high)
    for forget, step in zip(thirds, steps, strict=True):
        if step is None or not len(forget):
            continue
        data = request.data | {"forget": forget}
        step_request = replace(request, forget_ids=forget.ids, data=data, history=[])
        unlearned = RUN[step.method](unlearned, step_request, step)
        epochs_done = len(request.history)
        for record in step_request.history:
            request.history.append(record | {"epoch": epochs_done + record["epoch"]})
    return unlearned
