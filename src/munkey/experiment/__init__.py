"""The experiment: params, plan, run, cost, tracking. Each package builds on those before it."""
