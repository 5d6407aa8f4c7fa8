"""What `munkey --help` says; docs/command.md has the same table of exit codes."""

HELP = """
A trained MUNKEY in a directory: classify pictures, and forget samples in milliseconds, durably and provably.

\b
  munkey export default/digits/seed0 model      a result of the pipeline becomes a directory
  munkey predict model picture.png --explain    an answer, and the samples that it rests on
  munkey forget model --ids 17,42               durable when the command returns
  munkey verify model --published HEAD          recompute the chain; notice a restored backup
  munkey serve model --port 8000                predict, forget and verify over HTTP
  munkey plan                                   what an experiment will cost, before its first job

\b
EXIT CODES
  0  done
  1  a check failed: the model is not what it claims to be, or contradicts a certificate; a planned job cannot fit
  2  bad input: unknown ids; a file that is not a picture, a model or a certificate, or is damaged; nothing was changed
  3  locked: another process writes this model, or a reader is in the way; try again
  4  the machine refused: disk full, no permission, port taken
"""
