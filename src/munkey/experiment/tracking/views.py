"""Views of MLflow's runs page that compare methods: one for each data set and forget rate.

MLflow keeps a view as a tag of its experiment, lists it in the menu *Views*, and opens it at an address. Here stands
what such a tag holds: the state of the page as MLflow 3.17 reads it.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from munkey.experiment.tracking.store import every

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from munkey.experiment.tracking.runs import Run

RESULTS = "munkey.results"  # a tag of runs: whose they are
NOTE = "mlflow.note.content"
KIND, TRAINING = "mlflow.experimentKind", "custom_model_development"  # what MLflow's page of an experiment shows first
TAG = "mlflow.sharedViewState."  # begins the name of the tag; the view's key follows
ORDER = "gap"  # what the methods are sorted by
PAGE = 100  # runs that MLflow's page loads at once; a group has the average of those alone
COMPARED = ("TA", "RA", "FA", "MIA")
COLUMNS = (ORDER, f"{ORDER}_sd", *COMPARED, "P_s", "unlearn_s", *(f"{name}_sd" for name in COMPARED))
WIDTHS = {"attributes.`Run Name`": 225, "runDateAndNestInfo": 36, "duration": 36}  # [px] of what MLflow always shows
WIDTH = 80  # [px] of a metric: of `97.53 (average)` the number can be read; eight fit on a page of 1280 px
HOW_TO_READ = """\
Open *Views*, at the top right: each view compares the methods at one forget rate, the smallest gap first. A row is a
method; open it for its run, with means and standard deviations, and for its seeds. The chart icon draws the methods.
MLflow loads 100 runs at once: where there are more, a view leaves out the seeds, which `tags.kind = 'run'` finds.

| metric | what it is |
|---|---|
| gap | Avg Gap [points]: mean over TA, RA, FA, MIA of the distance to the oracle (retrained). Small is good |
| TA, RA, FA | accuracy on test, retain and forget set [%]. Good is what the oracle has, in FA too |
| MIA | AUROC of an attack that tells forget samples from test samples [%]. Good is what the oracle has, about 50 |
| P_s | pathway sensitivity of MUNKEY, no unit. Small is good |
| unlearn_s | seconds that unlearning took |
| …_sd | standard deviation over seeds |
| seed_gap | the gap of one seed to the same seed of its oracle |

`original-…` are trained on all samples; `retrain-…`, the oracles, without the forget set: t is a ViT, m is MUNKEY.
Numbers have four digits here, and all in `results/`.
"""


class RunsView(NamedTuple):
    """A view of an experiment. key: in the tag's name and in the address; content: the tag's value."""

    experiment: str
    key: str
    name: str
    content: str


def publish(
    client: "MlflowClient", site: str, owner: str, runs: "Sequence[Run]", experiments: Mapping[str, str]
) -> dict[str, str]:
    """Have the store hold exactly these views of an owner, and a note in each experiment: addresses by name.

    experiments: ids by name. A note or kind that somebody wrote stays.
    """
    views = views_of(runs, owner)
    wanted = {(experiments[view.experiment], f"{TAG}{view.key}") for view in views}
    for experiment in every(client.search_experiments):
        for tag in experiment.tags:
            if tag.startswith(f"{TAG}{_key(owner, '')}") and (experiment.experiment_id, tag) not in wanted:
                client.delete_experiment_tag(experiment.experiment_id, tag)
        for tag, value in {NOTE: HOW_TO_READ, KIND: TRAINING}.items():
            if experiment.experiment_id in experiments.values() and tag not in experiment.tags:
                client.set_experiment_tag(experiment.experiment_id, tag, value)
    for view in views:
        client.set_experiment_tag(experiments[view.experiment], f"{TAG}{view.key}", view.content)
    return {f"{view.experiment}: {view.name}": _address(site, experiments[view.experiment], view.key) for view in views}


def published(client: "MlflowClient", site: str) -> dict[str, str]:
    """The views that munkey wrote into a store, whoever's: addresses by name."""
    return {
        f"{experiment.name}: {json.loads(value)['name']}": _address(
            site, experiment.experiment_id, tag.removeprefix(TAG)
        )
        for experiment in every(client.search_experiments)
        for tag, value in sorted(experiment.tags.items())
        if tag.startswith(f"{TAG}munkey-")
    }


def views_of(runs: "Sequence[Run]", owner: str) -> list[RunsView]:
    """A view for each data set and rate of which there are methods. owner: what their tag `munkey.results` says."""
    places: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if run.tags.get("kind") in ("method", "run"):
            places.setdefault((run.experiment, run.tags["rate"]), []).append(run)
    views = []
    for (experiment, rate), each in places.items():
        name = f"Methods by gap, {100 * float(rate):g} % forgotten"
        name += "" if owner == "results/default" else f" ({owner})"
        latest = max(run.ended or "1970-01-01T00:00:00+00:00" for run in each)
        created = round(datetime.fromisoformat(latest).timestamp() * 1000)
        state = base64.b64encode(zlib.compress(json.dumps(_state(each, rate, owner)).encode())).decode()
        envelope = {"name": name, "createdAt": created, "state": f"deflate;{state}"}
        views.append(RunsView(experiment, _key(owner, rate), name, json.dumps(envelope)))
    return views


def _key(owner: str, rate: str) -> str:
    """The key of a view, or the beginning of all of an owner's: a tag's name takes no `:`, so the owner is hashed."""
    return f"munkey-{hashlib.sha256(owner.encode()).hexdigest()[:12]}-rate{rate}"


def _address(site: str, experiment: str, key: str) -> str:
    return f"{site}/#/experiments/{experiment}/runs?workflowType=machine_learning&viewStateShareKey={key}"


def _state(runs: "Sequence[Run]", rate: str, owner: str) -> dict[str, object]:
    """The page: what is found, its order, groups and columns. MLflow chooses the charts.

    If MLflow loaded some of the seeds only, it would average those: then the methods' own runs are shown alone.
    """
    kinds = "tags.kind != 'candidate' and tags.kind != 'model'"
    if len(runs) > PAGE:
        runs, kinds = [run for run in runs if run.tags["kind"] == "method"], "tags.kind = 'method'"
    columns = [f"metrics.`{name}`" for name in COLUMNS]
    return {
        "searchFilter": f"tags.`{RESULTS}` = \"{owner}\" and tags.rate = '{rate}' and {kinds}",
        "orderByKey": f"metrics.`{ORDER}`",
        "orderByAsc": True,
        "startTime": "ALL",
        "selectedColumns": columns,
        "columnOrder": [*WIDTHS, *columns],
        "columnWidths": {**WIDTHS, **dict.fromkeys(columns, WIDTH)},
        "groupBy": {"aggregateFunction": "average", "groupByKeys": [{"mode": "tag", "groupByData": "method"}]},
        "groupsExpanded": {f"tag.method.{run.tags['method']}": False for run in runs},  # closed
        "useGroupedValuesInCharts": True,
        "runsHiddenMode": "SHOW_ALL",  # else MLflow draws ten methods
    }
