"""Lists the jobs of a dry run, one JSON object a line: `snakemake -n --logger jobs`, with its folder on PYTHONPATH."""

import json
from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent


class LogHandler(LogHandlerBase):
    """Prints rule, inputs and outputs of each job, and what Snakemake reports as an error."""

    writes_to_stream = True
    writes_to_file = False
    needs_rulegraph = False
    has_filter = False
    has_formatter = False

    def emit(self, record: LogRecord) -> None:
        fields = vars(record)
        if fields.get("event") == LogEvent.JOB_INFO:
            print(json.dumps({name: fields[name] for name in ("rule_name", "input", "output")}))
        elif fields.get("event") == LogEvent.ERROR:
            print(record.getMessage())
