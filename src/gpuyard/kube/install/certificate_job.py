"""A job that makes the certificates in the cluster before anything else is installed, so that no key is in a chart."""

from __future__ import annotations

from gpuyard.kube.install import pods
from gpuyard.kube.install.manifests import account, marked, object_of
from gpuyard.kube.install.pods import CERTIFICATES, CLIENT_SECRET, SERVER_SECRET
from gpuyard.kube.install.roles import role_of_certificates
from gpuyard.kube.install.values import Values
from gpuyard.kube.json_objects import JsonObject

TRIES = 4


def certificate_job(values: Values) -> list[JsonObject]:
    """The job and its right to make secrets, which are gone when it has ended well."""
    work = {"template": {"spec": pods.certificate_maker(values)}, "backoffLimit": TRIES}
    made = [
        account(CERTIFICATES, values),
        *role_of_certificates(values.namespace, CERTIFICATES, [SERVER_SECRET, CLIENT_SECRET]),
        object_of("batch/v1", "Job", CERTIFICATES, values, spec=work),
    ]
    for number, each in enumerate(made):
        each["metadata"]["annotations"] = {
            "helm.sh/hook": "pre-install,pre-upgrade",
            "helm.sh/hook-weight": str(number),
            "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
        }
    return marked(made)
