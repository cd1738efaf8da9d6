# SPDX-License-Identifier: Apache-2.0
"""An App that the deployment profile does not allow: what runs goes on, and nothing starts.

Admission refuses such an App. It exists nevertheless when the profile changed, or the database was
edited or restored. It can be stopped at any time.
"""

from rdd.controllers.app.app.failures import failure
from rdd.controllers.app.app.programs import Hold
from rdd.controllers.app.app.reasons import settled
from rdd.controllers.app.commands import rdd_command
from rdd.controllers.environment import ControllerEnvironment
from rdd.kinds.app import App


def hold_by_profile(env: ControllerEnvironment, app: App) -> Hold | None:
    """Return why an App that should run is held; None if it is allowed."""
    rules = env.rules()
    if rules is None or not app.spec.running:
        return None
    problem = rules.app_problem(app.raw)
    if not problem:
        return None
    remedy = rdd_command(env.instance, "profile show")
    return Hold(settled("NotAllowed", problem), failure("NotAllowed", remedy))
