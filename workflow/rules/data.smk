# Data sets: decoded once, mapped into memory by every later job.


rule data:
    output:
        images=LAYOUT.images,
        samples=LAYOUT.samples,
        classes=LAYOUT.classes,
    log:
        LAYOUT.log("data/{dataset}"),
    benchmark:
        LAYOUT.benchmark("data/{dataset}")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        source=lambda w: PLAN.sections(w.dataset, "source")["source"],
        state=lambda w: PLAN.disk_state(w.dataset),
        code=lambda w: code("data.py", PARAMS.reader(w.dataset).load),
    message:
        "prepare the data set {wildcards.dataset}"
    script:
        "../scripts/data.py"
