"""Names of types, packages, namespaces and versions pass under `personal`; names of persons do not.

Each form that passes stands beside the same form with a name, an account or a secret in it.
"""

from __future__ import annotations

import pytest

from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer

KEY = Key(b"program names".ljust(32))


def _released(privatizer: Privatizer, text: str) -> str:
    return privatizer.release(text, Setting(policy="personal"), key=KEY).text


@pytest.mark.parametrize(
    "text",
    [
        '<svg xmlns="http://www.w3.org/2000/svg">',
        'xmlns:android="http://schemas.android.com/apk/res/android"',
        '<project xmlns="http://maven.apache.org/POM/4.0.0">',
        '{"$schema": "http://json-schema.org/draft-07/schema#"}',
        'import "github.com/gin-gonic/gin"',
        '\t"github.com/gin-gonic/gin"\n\t"go.uber.org/zap"\n\t"k8s.io/client-go/kubernetes"',
        "git clone git@github.com:django/django.git",
        "https://github.com/kubernetes/kubernetes/issues/1234",
        "app.kubernetes.io/name: web",
        "nginx.ingress.kubernetes.io/rewrite-target: /",
        "GET https://registry.npmjs.org/left-pad - Not found",
        '"resolved": "https://registry.npmjs.org/lodash/-/lodash-4.17.21.tgz"',
        "proxy_pass http://backend:3000;",
        "implementation 'org.springframework.boot:spring-boot-starter-web:3.2.1'",
        'implementation("com.squareup.retrofit2:retrofit:2.9.0")',
        "androidx.appcompat:appcompat:1.6.1",
        "<groupId>com.fasterxml.jackson.core</groupId>",
        "<artifactId>jackson-databind</artifactId>",
    ],
)
def test_public_packages_and_namespaces_leave_as_typed(privatizer: Privatizer, text: str) -> None:
    assert _released(privatizer, text) == text


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ('import "github.com/hvogel/solar-tracker"', "hvogel"),
        ("git clone git@github.com:kerr/app.git", "kerr"),
        ("https://github.com/rosehunter/gin", "rosehunter"),
        ("https://pypi.org/user/kerr/", "kerr"),
        ("https://crates.io/users/garden", "garden"),
        ("https://www.nuget.org/profiles/rose", "rose"),
        ("https://registry.npmjs.org/@kerrbau/tools", "kerrbau"),
        ("https://registry.npmjs.org/~rose", "rose"),
        ("https://www.w3.org/People/kowalski", "kowalski"),
        ("http://rose:hunter2@www.w3.org/2000/svg", "hunter2"),
        ("https://www.w3.org/a?user=mlindqvist", "mlindqvist"),
        ("http://kerr:3000", "kerr"),
        ("http://backend:3000/kowalski", "kowalski"),
        ("implementation 'com.kerrbau.app:core:1.2.3'", "kerrbau"),
        ("com.janedoe.shop", "janedoe"),
        ("java.kowalski", "kowalski"),
        ("ann@golang.org", "ann@"),
    ],
)
def test_owners_and_users_in_the_same_form_are_drawn(
    privatizer: Privatizer, text: str, private: str
) -> None:
    assert private not in _released(privatizer, text)
