"""The experiment around the results: params, plan, run, cost, tracking; each builds on those before it."""
