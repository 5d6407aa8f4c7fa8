# Data sets: decoded once, mapped into memory by every later job.


use rule job as data with:
    output:
        images=LAYOUT.images,
        samples=LAYOUT.samples,
        classes=LAYOUT.classes,
    log:
        LAYOUT.log("data/{dataset}"),
    params:
        source=lambda w: dump_settings(PARAMS.for_case(w.dataset).source),
        state=lambda w: PLAN.disk_state(w.dataset),
        code=code("data.data", lambda w: [PARAMS.reader(w.dataset).load]),
    message:
        "prepare the data set {wildcards.dataset}"
