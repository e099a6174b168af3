"""What every test run has: a Hypothesis profile whose failures can be repeated."""

import os

from hypothesis import HealthCheck, settings

# A failing example is printed with the blob that repeats it; no deadline, since machines differ in speed.
settings.register_profile("entrepot", print_blob=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("entrepot"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "entrepot"))
