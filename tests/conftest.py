"""For all tests: how hypothesis works here."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "quoracy",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("quoracy")
