"""The model card of an export, in Markdown."""

from collections.abc import Mapping

from munkey.deploy.model.manifest import Manifest

MEANINGS = {
    "TA": "accuracy on the test split",
    "RA": "accuracy on the training samples that stay",
    "FA": "accuracy on the forget set",
    "MIA": "membership inference on the forget set; 50: none",
    "VA": "accuracy on the validation split",
}


def render(manifest: Manifest, metrics: Mapping[str, Mapping[str, float]]) -> str:
    """The card. metrics: by rate of the forget set and name, as in the metrics of the run."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("munkey.deploy", "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
        keep_trailing_newline=True,
    )
    template = environment.get_template("card.md.j2")
    return template.render(manifest=manifest, metrics=metrics, meanings=MEANINGS)
