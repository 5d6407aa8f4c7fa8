"""What stands below the figures."""

CAPTIONS = {  # of the charts, of the ranks and of the retrieval examples
    "overview": "MUNKEY: what is specific to a sample lies in a row of the memory; to forget it, delete the row.",
    "forgetting": "Avg Gap, the distance to the oracle, and the seconds that unlearning takes. Bars: ± one standard"
    " deviation over seeds, cut off at 0.",
    "neighbors": "Test accuracy and Avg Gap over the number of neighbors K; one model per seed, evaluated with each K."
    " Bars: ± one standard deviation over seeds, cut off at 0.",
    "selection": "The grid of (p_image, p_token): the pair that the selection chose is a star, (0, 0) a gray cross."
    " The four panels in percent have the same scale.",
    "sensitivity": "Pathway sensitivity P_s and its three accuracies over the epochs of training.",
    "tokens": "UMAP of exemplar tokens (top) and [CLS] features (bottom) at the start, middle and end of training; a"
    " color and a shape for each class.",
    "ranks": "Mean ranks by Avg Gap, 1 is the best; a bar joins methods that the seeds do not tell apart.",
    "retrieval": "Neighbors of a test sample and of a forget sample, before and after deletion; chosen to show what"
    " deletion does, not at random. Below each neighbor: its weight and its class; for a new neighbor, also whether"
    " that class is the sample's (same) or not (other).",
}


def caption(figure: str) -> str:
    """Of a figure by its name: KIND, KIND-DATASET or KIND-DATASET-rateRATE."""
    kind, _, place = figure.partition("-")
    dataset, _, rate = place.partition("-rate")
    forgotten = f", {100 * float(rate):g} % forgotten" if rate else ""
    return CAPTIONS[kind] + (f" Data set: {dataset}{forgotten}." if dataset else "")
