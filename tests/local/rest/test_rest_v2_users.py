"""Users and groups on the v2 API: who may change what, and what that lets them do."""

from __future__ import annotations

import pytest
from local_client import LocalClient, unique
from protocol_client import ProtocolClient, protocol


def word(start):
    return unique(start).replace("-", "_")


@pytest.fixture
def ann(v2):
    """Somebody who is no administrator."""
    name = word("ann")
    body = {"username": name, "password": "anns-password", "email": "ann@example.org"}
    assert v2.send("POST", "/users", body).status_code == 201
    return ProtocolClient(v2.server, name, "anns-password")


@pytest.fixture
def group(v2):
    """A group that lets its members use vc1."""
    name = word("group")
    body = {"groupname": name, "description": "d", "extension": {"acls": {"virtualClusters": ["vc1"]}}}
    assert v2.send("POST", "/groups", body).status_code == 201
    return name


def error(reply):
    body = reply.json()
    return reply.status_code, body["code"], body["message"]


def said(reply):
    return reply.status_code, reply.json()["message"]


def shown(v2, name):
    return v2.send("GET", f"/users/{name}").json()


@pytest.mark.slow
def test_what_a_group_lets_its_members_do_counts_on_v1_too(ann, group, v2):
    """A virtual cluster of theirs, and the rights of an administrator."""
    user = LocalClient(v2.server, ann.username, "anns-password")
    assert user.post(unique(), "true", virtualCluster="vc1").status_code == 403
    assert user.send("GET", "/user").status_code == 403
    v2.send("PUT", f"/users/{ann.username}/group", {"groupname": group})
    assert user.post(unique(), "true", virtualCluster="vc1").status_code == 202
    acls = {"groupname": group, "extension": {"acls": {"admin": True}}}
    assert v2.send("PUT", "/groups", {"patch": True, "data": acls}).status_code == 201
    assert LocalClient(v2.server, ann.username, "anns-password").send("GET", "/user").status_code == 200


@pytest.mark.slow
def test_a_group_opens_a_virtual_cluster_to_its_members(ann, group, v2):
    """As long as they are in it."""
    text = protocol("true", defaults={"virtualCluster": "vc1"})
    assert ann.post(text).status_code == 403
    reply = v2.send("PUT", f"/users/{ann.username}/group", {"groupname": group})
    assert said(reply) == (201, f"User {ann.username} is added into group {group}")
    assert shown(v2, ann.username)["grouplist"] == ["default", group]
    assert shown(v2, ann.username)["virtualCluster"] == ["default", "vc1"]
    assert ann.post(text).status_code == 202
    members = v2.send("GET", f"/groups/{group}/userlist").json()
    assert members == [{"username": ann.username, "clusterAdmin": False}]
    reply = v2.send("DELETE", f"/users/{ann.username}/group", {"groupname": group})
    assert said(reply) == (201, f"User {ann.username} is removed from group {group}")
    assert ann.post(protocol("true", defaults={"virtualCluster": "vc1"})).status_code == 403


@pytest.mark.slow
def test_a_group_of_administrators_makes_administrators(ann, v2):
    """Taking the right away takes them out of every such group."""
    name = word("chiefs")
    v2.send("POST", "/groups", {"groupname": name, "extension": {"acls": {"admin": True}}})
    assert ann.send("GET", "/kubernetes/nodes").status_code == 403
    assert v2.send("PUT", f"/users/{ann.username}/grouplist", {"grouplist": [name]}).status_code == 201
    assert ann.send("GET", "/kubernetes/nodes").status_code == 200
    assert error(v2.send("DELETE", f"/users/{ann.username}"))[1] == "RemoveAdminError"
    reply = v2.send("PUT", f"/users/{ann.username}/admin", {"admin": False})
    assert said(reply) == (201, "Update user admin permission successfully.")
    assert (shown(v2, ann.username)["admin"], shown(v2, ann.username)["grouplist"]) == (False, ["default"])
    assert v2.send("PUT", f"/users/{ann.username}/admin", {"admin": True}).status_code == 201
    assert shown(v2, ann.username)["grouplist"] == ["default", "admingroup"]


@pytest.mark.slow
def test_a_group_is_shown_changed_and_removed(ann, group, v2):
    """In part, as a whole, by the older routes; its members are in it no longer."""
    assert v2.send("GET", f"/groups/{group}").json() == {
        "groupname": group,
        "description": "d",
        "externalName": "",
        "extension": {"acls": {"virtualClusters": ["vc1"], "admin": False}},
    }
    assert group in [item["groupname"] for item in v2.send("GET", "/groups").json()]
    part = {"groupname": group, "description": "other", "extension": {"note": 1}}
    assert said(v2.send("PUT", "/groups", {"patch": True, "data": part}))[0] == 201
    after = v2.send("GET", f"/groups/{group}").json()
    assert (after["description"], after["extension"]["note"]) == ("other", 1)
    assert after["extension"]["acls"]["virtualClusters"] == ["vc1"]
    reply = v2.send("PUT", "/groups", {"data": part})
    assert error(reply) == (
        400,
        "InvalidParametersError",
        'child "data" fails because [child "externalName" fails because ["externalName" is required]]',
    )
    whole = {**part, "externalName": "e"}
    assert said(v2.send("PUT", "/groups", {"data": whole})) == (201, f"update group {group} successfully.")
    assert v2.send("GET", f"/groups/{group}").json()["extension"]["acls"]["virtualClusters"] == []
    for path, body in (
        ("description", {"description": "x"}),
        ("externalname", {"externalName": "y"}),
        ("extension", {"extension": {"z": 1}}),
    ):
        assert v2.send("PUT", f"/groups/{group}/{path}", body).status_code == 201
    after = v2.send("GET", f"/groups/{group}").json()
    assert (after["description"], after["externalName"], after["extension"]["z"]) == ("x", "y", 1)
    v2.send("PUT", f"/users/{ann.username}/group", {"groupname": group})
    assert said(v2.send("DELETE", f"/groups/{group}")) == (200, "group is removed successfully")
    assert shown(v2, ann.username)["grouplist"] == ["default"]


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "/groups/nosuch", None, (400, "NoGroupError", "Group nosuch is not found.")),
        ("DELETE", "/groups/nosuch", None, (500, "UnknownError", "NotFound")),
        ("POST", "/groups", {"groupname": "default"}, (500, "UnknownError", "AlreadyExists")),
        (
            "PUT",
            "/groups",
            {"patch": True, "data": {"groupname": "nosuch"}},
            (400, "NoGroupError", "Group nosuch is not found."),
        ),
        ("DELETE", "/users/nosuch", None, (404, "NoUserError", "User nosuch not found.")),
        (
            "PUT",
            "/users/nosuch/grouplist",
            {"grouplist": []},
            (404, "NoUserError", "User nosuch not found."),
        ),
        (
            "PUT",
            "/users/admin/grouplist",
            {"grouplist": ["a", "b"]},
            (404, "NoGroupError", "Updated nonexistent grouplist: a,b"),
        ),
        (
            "PUT",
            "/users/admin/group",
            {"groupname": "nosuch"},
            (404, "NoGroupError", "Updated nonexistent group: nosuch"),
        ),
        (
            "PUT",
            "/users/admin/virtualcluster",
            {"virtualCluster": ["vc1"]},
            (403, "ForbiddenUserError", "Admin's virtual clusters cannot be updated."),
        ),
        (
            "PUT",
            "/users/admin/virtualcluster",
            {"virtualCluster": ["vc9"]},
            (400, "NoVirtualClusterError", "Try to update nonexist: vc9"),
        ),
        (
            "PUT",
            "/users/admin/virtualcluster",
            {"virtualCluster": ["admingroup"]},
            (400, "NoVirtualClusterError", "Try to update: admingroup, but found: "),
        ),
        (
            "POST",
            "/users",
            {"username": "x", "password": "password", "email": "nonsense"},
            (400, "InvalidParametersError", 'child "email" fails because ["email" must be a valid email]'),
        ),
        (
            "POST",
            "/users",
            {"username": "x", "password": "password", "virtualCluster": ["vc9"]},
            (404, "NoGroupError", "No groups for vc: vc9"),
        ),
        (
            "POST",
            "/authn/basic/login",
            {"username": "zo\u00e9", "password": "password"},
            (
                400,
                "InvalidParametersError",
                (
                    'child "username" fails because '
                    '["username" with value "zo\u00e9" fails to match the username pattern]'
                ),
            ),
        ),
        (
            "PUT",
            "/users/me",
            {"patch": True, "data": {"username": "somebody"}},
            (403, "ForbiddenUserError", "Can't update other user's data"),
        ),
    ],
)
def test_what_is_refused_says_why(method, path, body, expected, v2):
    """With 1.8's status, code and sentence."""
    assert error(v2.send(method, path, body)) == expected


OTHERS = [
    ("POST", "/groups", {"groupname": "g"}),
    ("PUT", "/groups", {"patch": True, "data": {"groupname": "g"}}),
    ("DELETE", "/groups/default", None),
    ("GET", "/groups/default/userlist", None),
    ("PUT", "/groups/default/extension", {"extension": {}}),
    ("PUT", "/groups/default/description", {}),
    ("PUT", "/groups/default/externalname", {}),
    ("PUT", "/users", {"patch": True, "data": {"username": "admin"}}),
    ("DELETE", "/users/admin", None),
    ("PUT", "/users/admin/grouplist", {"grouplist": []}),
    ("PUT", "/users/admin/group", {"groupname": "g"}),
    ("DELETE", "/users/admin/group", {"groupname": "g"}),
    ("PUT", "/users/admin/virtualcluster", {"virtualCluster": []}),
    ("PUT", "/users/admin/admin", {"admin": False}),
    ("PUT", "/users/admin/extension", {"extension": {}}),
    ("PUT", "/users/admin/email", {}),
    ("PUT", "/users/admin/password", {"newPassword": "my-password", "oldPassword": "a-guess"}),
]


@pytest.mark.parametrize(("method", "path", "body"), OTHERS)
def test_others_may_not(method, path, body, ann, v2):
    """403 for whoever is no administrator, and for programs; 401 without a token."""
    assert error(ann.send(method, path, body))[:2] == (403, "ForbiddenUserError")
    assert v2.call(method, path, json=body).status_code == 401
    if method != "GET":
        token = v2.send("POST", "/tokens/application").json()["token"]
        reply = v2.call(method, path, json=body, headers={"Authorization": f"Bearer {token}"})
        assert error(reply)[2] == "Applications are not allowed to do this operation."


@pytest.mark.slow
def test_a_user_changes_what_is_theirs(ann, v2):
    """Email, extension, and the password if they know it; a new one ends their logins."""
    name = ann.username
    assert ann.send("PUT", f"/users/{name}/email", {"email": "a@example.org"}).status_code == 201
    assert ann.send("PUT", f"/users/{name}/extension", {"extension": {"a": 1}}).status_code == 201
    mine = {"username": name, "extension": {"b": 2}}
    reply = ann.send("PUT", "/users/me", {"patch": True, "data": mine})
    assert said(reply) == (201, f"Update user {name} successfully")
    assert (shown(v2, name)["email"], shown(v2, name)["extension"]) == ("a@example.org", {"a": 1, "b": 2})
    application = ann.send("POST", "/tokens/application").json()["token"]
    change = {"oldPassword": "anns-password", "newPassword": "another-password"}
    assert said(ann.send("PUT", f"/users/{name}/password", change))[0] == 201
    assert ann.send("GET", "/jobs").status_code == 401
    assert ann.call("GET", "/jobs", headers={"Authorization": f"Bearer {application}"}).status_code == 200
    assert ProtocolClient(v2.server, name, "another-password").token


@pytest.mark.slow
def test_an_administrator_changes_everything(ann, v2):
    """In part or as a whole; virtual clusters replace the groups."""
    name = ann.username
    data = {"username": name, "virtualCluster": ["vc1"], "admin": True, "extension": {"x": 1}}
    assert said(v2.send("PUT", "/users", {"patch": True, "data": data}))[0] == 201
    after = shown(v2, name)
    assert (after["grouplist"], after["admin"]) == (["default", "vc1", "admingroup"], True)
    missing = {"data": {**data, "email": "a@example.org"}}
    assert '"password" is required' in error(v2.send("PUT", "/users", missing))[2]
    data |= {"admin": False, "password": "from-the-admin", "email": "b@example.org"}
    assert v2.send("PUT", "/users", {"data": data}).status_code == 201
    assert ann.send("GET", "/jobs").status_code == 401
    assert ProtocolClient(v2.server, name, "from-the-admin").send("GET", "/jobs").status_code == 200
    reply = v2.send("PUT", f"/users/{name}/virtualcluster", {"virtualCluster": []})
    assert said(reply) == (201, "Update user virtualCluster data successfully.")
    assert shown(v2, name)["grouplist"] == ["default"]
    assert said(v2.send("DELETE", f"/users/{name}")) == (200, "user is removed successfully")
    assert error(v2.send("GET", f"/users/{name}"))[0] == 400


@pytest.mark.slow
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_removed_user_leaves_no_token_behind(version, ann, v2, client):
    """Whoever has the name next is somebody else."""
    name = ann.username
    tokens = [ann.token, ann.send("POST", "/tokens/application").json()["token"]]
    if version == "v1":
        assert client.send("DELETE", "/user", {"username": name}).status_code == 200
    else:
        assert v2.send("DELETE", f"/users/{name}").status_code == 200
    body = {"username": name, "password": "another-password", "email": ""}
    assert v2.send("POST", "/users", body).status_code == 201
    for token in tokens:
        assert v2.call("GET", "/jobs", headers={"Authorization": f"Bearer {token}"}).status_code == 401
        assert client.call("PUT", "/jobs/x", {}, token=token).status_code == 401


@pytest.mark.slow
def test_what_a_program_may_do_is_decided_when_it_asks(ann, v2, client):
    """An application token has no end: its user may be an administrator no more, or by now. On v1, too."""
    name = ann.username
    token = ann.send("POST", "/tokens/application").json()["token"]
    for is_admin, status in ((False, 403), (True, 200), (False, 403)):
        assert v2.send("PUT", f"/users/{name}/admin", {"admin": is_admin}).status_code == 201
        assert client.call("GET", "/user", token=token).status_code == status


def nested(depth):
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    "extension",
    [
        '"{\\"a\\": NaN}"',
        '"{\\"a\\": 1e999}"',
        '{"a": 1e999}',
        '{"a": [{"b": -1e999}]}',
        f'{{"a": {nested(150)}}}',
        f'"{{\\"a\\": {nested(50_000)}}}"',
    ],
    ids=["NaN in a text", "infinity in a text", "infinity", "infinity inside", "deep", "deep in a text"],
)
def test_an_extension_that_could_not_be_shown_is_refused(extension, ann, v2):
    """It would be in every list of users from then on."""
    reply = v2.call(
        "PUT",
        f"/users/{ann.username}/extension",
        data=f'{{"extension": {extension}}}',
        headers={"Authorization": f"Bearer {v2.token}", "Content-Type": "application/json"},
    )
    assert error(reply)[1:] == (
        "InvalidParametersError",
        'child "extension" fails because ["extension" must be an object]',
    )
    assert v2.send("GET", "/users").json()
