"""A role of PostgreSQL that may release, but neither rewrite the account nor raise its limit."""

import sqlalchemy as sa

from undertow.data.scopes import check_name
from undertow.errors import InvalidInput
from undertow.ledger.tables import EVENTS

__all__ = ["grants"]

_RELEASING = ("reserve", "begin", "confirm", "cancel", "shape")
"""The events that a role which releases may append."""

_GUARD = """
CREATE OR REPLACE FUNCTION {schema}.undertow_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $guard$
BEGIN
    IF NOT pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'MEMBER')
    THEN
        IF TG_OP <> 'INSERT' THEN
            RAISE EXCEPTION 'events are only appended' USING ERRCODE = '42501';
        ELSIF NEW.kind NOT IN ({kinds}) THEN
            RAISE EXCEPTION 'only the owner opens accounts' USING ERRCODE = '42501';
        END IF;
    END IF;
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW;
END
$guard$
"""


def grants(connection: sa.Connection, role: str) -> list[str]:
    """Return the statements that let a role release: append events, keep the derived tables.

    Events cannot be updated, deleted or truncated by anybody but their owner, whatever is granted
    elsewhere: a trigger refuses it. The derived tables must be writable; whatever is done to them
    is found before the next grant, because they must follow from the events.
    """
    check_name(role, "the name of the role")
    quoted = connection.dialect.identifier_preparer.quote_identifier(role)
    schema_name = connection.execute(
        sa.text(
            "SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = to_regclass(:t)"
        ),
        {"t": EVENTS.name},
    ).scalar()
    if schema_name is None:
        raise InvalidInput("there is no ledger in this database")
    if not connection.execute(
        sa.text("SELECT count(*) FROM pg_roles WHERE rolname = :r"), {"r": role}
    ).scalar():
        raise InvalidInput(f"the server has no role {role!r}; make it with CREATE ROLE")
    schema = str(schema_name)  # as PostgreSQL quotes it
    names = ("ledger", "events", "datasets", "segments")
    ledger, events, datasets, segments = (f"{schema}.undertow_{name}" for name in names)
    kinds = ", ".join(f"'{kind}'" for kind in _RELEASING)
    return [
        f"REVOKE ALL ON {ledger}, {events}, {datasets}, {segments} FROM PUBLIC, {quoted}",
        f"GRANT USAGE ON SCHEMA {schema} TO {quoted}",
        f"GRANT SELECT, INSERT ON {events} TO {quoted}",
        f"GRANT SELECT, UPDATE (seq, hash) ON {ledger} TO {quoted}",
        f"GRANT SELECT, UPDATE (layout, terms) ON {datasets} TO {quoted}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {segments} TO {quoted}",
        _GUARD.format(schema=schema, kinds=kinds).strip(),
        f"DROP TRIGGER IF EXISTS undertow_rows ON {events}",
        f"DROP TRIGGER IF EXISTS undertow_truncate ON {events}",
        (
            f"CREATE TRIGGER undertow_rows BEFORE INSERT OR UPDATE OR DELETE ON {events} "
            f"FOR EACH ROW EXECUTE FUNCTION {schema}.undertow_guard()"
        ),
        (
            f"CREATE TRIGGER undertow_truncate BEFORE TRUNCATE ON {events} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {schema}.undertow_guard()"
        ),
    ]
