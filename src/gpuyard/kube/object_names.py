"""What Kubernetes lets its objects be called, as regular expressions that JSON schemas can have, too."""

from __future__ import annotations

import re

from gpuyard.core.errors import InputError

LABEL_NAME = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
"""Of namespaces, containers and volumes."""
SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""Of most other objects."""
LABEL_KEY = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"


def check_namespace(name: str, field: str = "namespace", file: object = None) -> None:
    """InputError unless a namespace can have this name."""
    if not re.fullmatch(LABEL_NAME, name):
        rule = "is no name of a namespace: at most 63 small letters, digits and '-', with no '-' at the ends"
        raise InputError(rule, file=file, field=field, value=name)


def check_object_name(name: str, field: str) -> None:
    """InputError unless an object, such as a volume claim, can have this name."""
    if not re.fullmatch(SUBDOMAIN, name) or len(name) > 253:
        rule = "is no name of an object: small letters, digits, '-' and '.', with letters or digits at the ends"
        raise InputError(rule, field=field, value=name)
