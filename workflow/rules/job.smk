# What all rules inherit: `use rule job as X with:`. The script runs the function of munkey.jobs that params.code names.


rule job:
    log:
        LAYOUT.log("job"),
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        code="",
    script:
        "../scripts/job.py"


# A job that computes with as many threads as `threads` in params.yaml says.
use rule job as cpu_job with:
    threads: PARAMS.threads


# The same on a GPU, if there is one.
use rule cpu_job as gpu_job with:
    resources:
        gpu=GPUS,
