"""Mutants: protections, each removed once. No simulation draws them; each has a test of its own that notices."""

from __future__ import annotations

from typing import Final

from mutants.edits import remove, replace
from mutants.mutant import mutant

_SECURITY: Final = "tests/unit/security"
_SCRAM: Final = f"{_SECURITY}/test_scram.py"
_TOKENS: Final = f"{_SECURITY}/test_oauthbearer.py"
_TLS: Final = f"{_SECURITY}/test_tls_settings.py"
_ACLS: Final = f"{_SECURITY}/test_acls.py"
_BROKER: Final = "tests/unit/broker"
_CLI: Final = "tests/unit/cli"
_WEB: Final = "tests/unit/web"
_DOOR: Final = "tests/process/test_admin_door.py"
_ENDPOINT: Final = f"{_WEB}/test_endpoint_bounds.py"
_GUARDED: Final = f"{_BROKER}/test_guarded_connection.py"
_SASL: Final = f"{_BROKER}/test_sasl_authenticator.py"
_COMING: Final = "tests/conformance/test_dynamic_listeners_beside_kafka.py"
_ATTACKS: Final = f"{_BROKER}/test_attacks.py"
_CHANNEL: Final = "tests/unit/runtime/test_tls_transport.py"
_STRANGERS: Final = "tests/unit/zk/test_zk_strangers.py"
_LISTENERS: Final = "tests/process/test_secured_listeners.py"

PROTECTIONS: Final = (
    # SASL
    mutant(
        "P01", "CVE-2024-56128", "SCRAM takes a proof with another nonce than the exchange's",
        "", "",
        remove(
            "security.sasl.scram:ScramServer._finish",
            """
            if said["nonce"] != first.nonce:
                raise self._refused("the nonce is not the one of this exchange")
            """,
        ),
    ),
    mutant(
        "P02", "RFC 5802", "SCRAM takes another channel binding than the exchange began with",
        "", "",
        remove(
            "security.sasl.scram:ScramServer._finish",
            """
            if base64.b64decode(said["binding"]) != first.gs2_header.encode():
                ...
            """,
        ),
    ),
    mutant(
        "P03", "RFC 5802", "a SCRAM exchange that failed may go on",
        "", "",
        remove(
            "security.sasl.scram:ScramServer.evaluate",
            """
            if self._over:
                raise SaslRefused("The exchange is over.")
            """,
        ),
    ),
    mutant(
        "P04", "RFC 5802", "a client believes a broker that does not prove that it knows the password",
        "", "",
        replace(
            "security.sasl.scram:client_tokens",
            'proven is None or not hmac.compare_digest(_decoded(proven["signature"] or ""), expected)',
            "proven is None",
        ),
    ),
    mutant(
        "P05", "RFC 7677", "a client proves its password to a broker that asks for one iteration",
        "", "",
        replace("security.sasl.scram:client_tokens", "iterations < ITERATIONS_MIN", "iterations < 1"),
    ),
    mutant(
        "P06", "KIP-48", "an expired delegation token logs in",
        "", "",
        remove(
            "security.sasl.scram:ScramServer._known",
            """
            if token.expires_at_ms <= self._scram.clock.now_ms():
                raise self._refused(f"delegation token {name!r} has expired")
            """,
        ),
    ),
    mutant(
        "P07", "RFC 4616", "PLAIN takes any password of a user that it knows",
        "", "",
        remove("security.sasl.plain:PlainServer.evaluate", "not right"),
    ),
    mutant(
        "P08", "CVE-2025-27817", "an OAUTHBEARER address need not be on the list",
        "", "",
        remove(
            "security.sasl.http:allowed_url",
            """
            if url not in allowed:
                ...
            """,
        ),
    ),
    mutant(
        "P09", "RFC 8725", "the token says by which algorithm it is checked, a shared secret's too",
        "", "",
        replace(
            "security.sasl.jwt:keys_of",
            'key.get("kty") not in ("RSA", "EC", "OKP")',
            'key.get("kty") not in ("RSA", "EC", "OKP", "oct")',
        ),
        remove(
            "security.sasl.jwt:SignedTokens.validate",
            """
            if header.get("alg") not in ALGORITHMS:
                ...
            """,
        ),
    ),
    mutant(
        "P10", "RFC 7519", "a token counts when it has expired",
        "", "",
        remove(
            "security.sasl.jwt:Expectations.bearer",
            """
            if now_ms - self.clock_skew_ms >= expires_ms:
                ...
            """,
        ),
    ),
    mutant(
        "P11", "RFC 7519", "a token counts whoever it is for",
        "", "",
        remove("security.sasl.jwt:Expectations.bearer", "self._meant_for_us(claims)"),
    ),
    # What a stranger may do
    mutant(
        "P12", "KIP-43", "every request is answered before the login is over",
        "", "",
        replace(
            "broker.sasl_authenticator:SaslServerAuthenticator._handshake",
            """
            if header.api_key != ApiKey.SASL_HANDSHAKE:
                return Reply([], f"it sent {_name_of(header)} before it authenticated")
            """,
            """
            if header.api_key != ApiKey.SASL_HANDSHAKE:
                return Reply([], is_api_versions=True)
            """,
        ),
    ),
    mutant(
        "P13", "KIP-43", "in the midst of a login another request is passed over, and the login goes on",
        "", "",
        replace(
            "broker.sasl_authenticator:SaslServerAuthenticator._authenticate",
            """
            if header.api_key != ApiKey.SASL_AUTHENTICATE:
                return Reply([], f"it sent {_name_of(header)} in the midst of its authentication")
            """,
            """
            if header.api_key != ApiKey.SASL_AUTHENTICATE:
                return Reply([])
            """,
        ),
    ),
    mutant(
        "P14", "KIP-152", "guessing passwords costs no time",
        "", "",
        replace(
            "broker.guarded_connection:SaslConnection._fail_later",
            "self._gate.failed_authentication_delay_ms / 1000",
            "0",
        ),
    ),
    mutant(
        "P15", "memory", "a stranger may announce requests as large as any",
        "", "",
        replace(
            "broker.guarded_connection:SaslConnection._begin_authentication",
            "min(gate.max_token_bytes, self._granted_bytes)",
            "self._granted_bytes",
        ),
    ),
    mutant(
        "P16", "slow handshakes", "half a handshake has no deadline",
        "", "",
        remove("broker.guarded_connection:GuardedConnection.connection_made", "self._set_deadline()"),
    ),
    mutant(
        "P17", "KIP-368", "a session that has ended goes on",
        "", "",
        remove(
            "broker.guarded_connection:SaslConnection._is_held_up",
            """
            if now_ms > expires_ms:
                ...
            """,
        ),
    ),
    mutant(
        "P18", "KIP-368", "another principal takes a session over",
        "", "",
        remove(
            "broker.sasl_authenticator:SaslServerAuthenticator._evaluate",
            """
            if before is not None and done.principal != before.authenticated.principal:
                ...
            """,
        ),
    ),
    mutant(
        "P19", "KIP-368", "a session is prolonged by another mechanism",
        "", "",
        replace(
            "broker.sasl_authenticator:SaslServerAuthenticator._wrong_mechanism",
            "self._before is not None and self._mechanism != self._before.mechanism",
            "False",
        ),
    ),
    # TLS
    mutant(
        "P20", "mTLS", "a certificate that is asked for may be left out, or be anybody's",
        "", "",
        replace(
            "security.tls.settings:TlsSettings.server_context",
            "context.verify_mode = _CLIENT_AUTH[self.client_auth]",
            "context.verify_mode = ssl.CERT_NONE",
        ),
    ),
    mutant(
        "P21", "RFC 6125", "a server's name is not looked at",
        "", "",
        replace(
            "security.tls.settings:TlsSettings.client_context",
            "context.check_hostname = self.verify_host_name",
            "context.check_hostname = False",
        ),
    ),
    mutant(
        "P22", "CVE-2009-3555", "a client may renegotiate, again and again",
        "", "",
        replace(
            "security.tls.settings:TlsSettings.server_context",
            "ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION",
            "0x100 | ssl.OP_NO_COMPRESSION",  # as OpenSSL before 3.0 does without being told
        ),
    ),
    mutant(
        "P23", "cleartext", "what is no TLS is taken as it comes on a TLS listener",
        "", "",
        replace(
            "runtime.tls_transport:TlsTransport.buffer_updated",
            """
            if _arrived[0] != _HANDSHAKE_RECORD:
                ...
            """,
            """
            if _arrived[0] != _HANDSHAKE_RECORD:
                self._protocol.get_buffer(-1)[:nbytes] = _arrived_view[:nbytes]
                self._protocol.buffer_updated(nbytes)
                return
            """,
        ),
    ),
    mutant(
        "P24", "KIP-371", "a certificate that no rule fits is let in under its subject",
        "", "",
        replace(
            "security.tls.principal_mapping:SslPrincipalMapper.name_of",
            'raise NoMatchingRule(f"no rule of ssl.principal.mapping.rules applies to {subject}")',
            "return subject",
        ),
    ),
    mutant(
        "P25", "KIP-226", "a changed store may speak for somebody else",
        "", "",
        remove(
            "security.tls.changes:check_change",
            """
            if not subject_may_change and subject_of(was).lower() != subject_of(now).lower():
                ...
            """,
        ),
    ),
    mutant(
        "P26", "secured properties", "protection that is asked for and not there does not keep a broker from starting",
        "", "",
        replace(
            "broker.protection:require_no_more_than_there_is",
            'view.text(name) not in ("", broker_definitions()[name].default, *_THERE.get(name, ()))',
            "False",
        ),
    ),
    # ACLs
    mutant(
        "P27", "CVE-2018-1288", "a client that says it is a follower fetches as one",
        "", "",
        replace(
            "broker.handlers.fetch:handle",
            "from_follower and authorized_cluster(context, Operation.CLUSTER_ACTION)",
            "from_follower",
        ),
    ),
    mutant(
        "P28", "ACLs change", "a follower's fetch that repeats is not asked for its rights again",
        "", "",
        remove(
            "broker.repeated_fetch:RepeatedFetches.answer",
            """
            not connection.authorizer.allows(
                connection.principal, connection.peer_host, _CLUSTER_ACTION, _CLUSTER, CLUSTER_NAME
            )
            """,
        ),
    ),
    mutant(
        "P29", "ACLs change", "a produce is not asked for its rights",
        "", "",
        replace(
            "broker.handlers.produce:handle",
            "authorized(context, _WRITE, _TOPIC, topic.name)",
            "True",
        ),
    ),
    mutant(
        "P30", "ACLs change", "what was decided stays decided when ACLs change",
        "", "",
        remove("security.acls:AclAuthorizer.update", "self._decisions.clear()"),
    ),
    mutant(
        "P31", "KIP-11", "who is allowed is allowed, whoever denies it",
        "", "",
        remove(
            "security.acls:AclAuthorizer._decide",
            """
            if any(acl.permission is Permission.DENY and acl.operation in (operation, _O.ALL) for acl in of_caller):
                ...
            """,
        ),
    ),
    mutant(
        "P32", "memory", "names that strangers make up fill the memory of decisions",
        "", "",
        remove(
            "security.acls:AclAuthorizer.allows",
            """
            if len(self._decisions) >= MAX_DECISIONS:
                ...
            """,
        ),
    ),
    mutant(
        "P33", "inter-broker requests", "what brokers and controllers say is taken from everybody",
        "", "",
        remove(
            "broker.authorize:require_cluster",
            """
            if not authorized_cluster(context, operation):
                ...
            """,
        ),
    ),
    mutant(
        "P34", "deleted users", "a user whose password is gone still has it",
        "", "",
        remove(
            "broker.scram_users:BrokerScramUsers.user_changed",
            "self._take_up(desanitize(entity), await self._node.zk.get_entity_configs(USERS, entity))",
        ),
    ),
    mutant(
        "P35", "KIP-48", "a token is changed by who neither owns nor may renew it",
        "", "",
        remove(
            "broker.delegation_tokens:DelegationTokens._token_of",
            """
            if str(principal) not in (token.owner, *token.renewers):
                ...
            """,
        ),
    ),
    # The coordinator
    mutant(
        "P36", "slow handshakes", "half a handshake has no deadline at the coordinator",
        "", "",
        remove("zk.server.server:CoordinatorServer.connected", "connection.await_introduction(self._loop)"),
    ),
    mutant(
        "P37", "memory", "who has no session may announce requests as long as any to the coordinator",
        "", "",
        replace("zk.server.connection:ServerConnection._take", "min(allowed, STRANGER_BYTES)", "allowed"),
    ),
    # What changes while a broker runs
    mutant(
        "P38", "KIP-226", "passwords that change while a broker runs lie open in ZooKeeper",
        "", "",
        replace(
            "broker.config_changes:ConfigChanges._encoded",
            "self._password_encoder.encode(text, token) if is_password(name) else text",
            "text",
        ),
    ),
    mutant(
        "P39", "RFC 5280", "a revoked certificate is let in",
        "", "",
        remove("security.tls.settings:TlsSettings._restrict", """
            if self.check_revocation:
                context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
            """),
    ),
    mutant(
        "P40", "KIP-226", "who came in by a listener that is gone stays in",
        "", "",
        remove("broker.socket_server:SocketServer.become", """
            for connection in closed:
                connection.close()
            """),
    ),
    mutant(
        "P41", "KIP-226", "an open listener is said to have another protection, and keeps what it has",
        "", "",
        replace(
            "broker.dynamic_listeners:DynamicListeners.check",
            "_lasting(self._config, name) != _lasting(config, name)",
            "False",
        ),
    ),
    # What a token may not do
    mutant(
        "P42", "KIP-48", "who has a token makes others of it",
        "", "",
        remove("broker.delegation_tokens:requests_allowed", "connection.token_authenticated"),
    ),
    # What is told to whom
    mutant(
        "P43", "secrets", "passwords and keys of no known type are told by DescribeConfigs and the view",
        "", "",
        replace(
            "broker.configs:is_sensitive",
            'definition.sensitive or definition.type not in CONFIG_TYPES or definition.type == "password"',
            "False",
        ),
    ),
    mutant(
        "P44", "secrets", "the view shows what users and tokens are checked against",
        "", "",
        replace(
            "web.pages:znodes",
            'any(path == prefix or path.startswith(f"{prefix}/") for prefix in SECRETS)',
            "path in SECRETS",
        ),
    ),
    mutant(
        "P45", "ACLs", "the view shows records whoever may read them",
        "", "",
        replace(
            "web.endpoint:AdminEndpoint.refusal",
            "self.broker.acls is not None",
            "False",
        ),
    ),
    mutant(
        "P46", "DNS rebinding", "a page of any name that leads here reads the admin endpoint",
        "", "",
        replace(
            "web.endpoint:AdminEndpoint.serves", "not self._local or not name or is_loopback(name)", "True"
        ),
    ),
    mutant(
        "P47", "CSRF", "pages of other sites have the admin endpoint asked by whoever looks at them",
        "", "",
        replace(
            "web.endpoint:HttpConnection._request",
            'headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate"',
            "False",
        ),
    ),
    mutant(
        "P48", "slow headers", "half a request to the admin endpoint has no deadline",
        "", "",
        remove("web.endpoint:HttpConnection.connection_made", "self._set_deadline()"),
    ),
    mutant(
        "P49", "slow readers", "an answer of the admin endpoint waits for who reads nothing as long as that likes",
        "", "",
        remove("web.endpoint:HttpConnection.pause_writing", "self._set_deadline()"),
    ),
    mutant(
        "P50", "file descriptors", "connections to the admin endpoint are as many as somebody opens",
        "", "",
        remove("web.endpoint:AdminEndpoint.opened", """
            if len(self._connections) >= MAX_CONNECTIONS:
                ...
            """),
    ),
    mutant(
        "P51", "HTML", "a text in a history ends the script of the page that it is exported in",
        "", "",
        replace("web.assets:exported", 'piece.replace(b"<", b"\\\\u003c")', "piece"),
    ),
    mutant(
        "P52", "log injection", "a stranger's name makes lines of a log",
        "", "",
        replace(
            "cli.log_format:TextLines.formatMessage",
            "printable(super().formatMessage(record))",
            "super().formatMessage(record)",
        ),
    ),
    mutant(
        "P53", "terminals", "a stranger's name gives an operator's terminal orders",
        "", "",
        replace("cli.output:_shown", "printable(str(cell))", "str(cell)"),
    ),
    # Who is speaking
    mutant(
        "P54", "ACLs", "who is denied by an IPv4 address comes in by the same one, mapped into IPv6",
        "", "",
        remove("model.cluster:host_address", """
            if address.ipv4_mapped is not None:
                return str(address.ipv4_mapped)
            """),
    ),
    mutant(
        "P55", "RFC 4616", "who knows one password of PLAIN speaks for anybody",
        "", "",
        replace("security.sasl.plain:PlainServer.evaluate", "authorization_id and authorization_id != user", "False"),
    ),
    mutant(
        "P56", "RFC 5802", "who knows one password of SCRAM speaks for anybody",
        "", "",
        replace(
            "security.sasl.scram:ScramServer._begin", 'said["authzid"] and said["authzid"] != name', "False"
        ),
    ),
    mutant(
        "P57", "RFC 7677", "a credential of one iteration, which is soon guessed, is asked for",
        "", "",
        replace("security.sasl.scram:ScramServer._begin", "credential.iterations < ITERATIONS_MIN", "False"),
    ),
    mutant(
        "P58", "memory", "a broker has its client compute as long as it likes",
        "", "",
        replace("security.sasl.scram:client_tokens", "iterations > ITERATIONS_TRUSTED", "False"),
    ),
    mutant(
        "P59", "RFC 8996", "TLS 1.0 and 1.1 are spoken",
        "", "",
        replace(
            "security.tls.settings:TlsSettings._restrict",
            "context.minimum_version, context.maximum_version = min(versions), max(versions)",
            "context.minimum_version = ssl.TLSVersion.TLSv1",
        ),
    ),
    # ZooKeeper
    mutant(
        "P60", "CVE-2024-23944", "who watches a tree of the coordinator hears of znodes that it may not read",
        "", "",
        replace(
            "zk.server.server:CoordinatorServer._tell",
            "not connection.closing and permits(acl, ZkPermission.READ, connection.identities)",
            "not connection.closing",
        ),
    ),
    mutant(
        "P61", "zookeeper.set.acl", "what logs users in is readable for whoever reaches ZooKeeper",
        "", "",
        replace(
            "zk.kafka.requests:default_acls",
            "any(path.startswith(root) for root in SENSITIVE_ROOT_PATHS)",
            "False",
        ),
    ),
    mutant(
        "P62", "jute.maxbuffer", "a request that ZooKeeper does not take ends the broker's connection again and again",
        "", "",
        replace("zk.client.connection:ClientConnection.send", "len(frame) > longest", "False"),
    ),
    mutant(
        "P63", "secrets", "whoever has an account here reads the passwords that `barnabas up` was given",
        "", "",
        replace("cli.local:LocalCluster.save", "0o600", "0o644"),
    ),
    mutant(
        "P64", "file descriptors", "an address opens as many connections as it likes",
        "", "",
        remove("broker.connections:Connections._refusal", """
            if self._by_address[address] >= allowed:
                ...
            """),
    ),
    # What a session outlives
    mutant(
        "P65", "CVE-2025-27817", "a client reads the file, and asks the address, that its settings name",
        "", "",
        replace(
            "security.sasl.login:_oauthbearer_login",
            'allowed_url("sasl.oauthbearer.token.endpoint.url", url, allowed)',
            "url",
        ),
    ),
    mutant(
        "P66", "RFC 5246", "a TLS session that is resumed outlives the certificate that it began with",
        "", "",
        remove("runtime.tls_transport:TlsTransport._shake_hands", """
            if self._tls.session_reused and self._has_expired():
                ...
            """),
    ),
    mutant(
        "P67", "RFC 8446", "tickets are given, by which TLS sessions are resumed past the certificates",
        "", "",
        remove("security.tls.settings:TlsSettings.server_context", "context.num_tickets = 0"),
    ),
    mutant(
        "P68", "KIP-48", "who has logged in by a password, and goes on by a token, may do what tokens may not",
        "", "",
        replace(
            "broker.guarded_connection:SaslConnection._let_in",
            "self.token_authenticated = session.authenticated.token_authenticated",
            "self.token_authenticated |= session.authenticated.token_authenticated and not self._began_ms",
        ),
    ),
    mutant(
        "P69", "KIP-368", "who is known has the broker compute its login again and again",
        "", "",
        replace(
            "broker.guarded_connection:SaslConnection._is_held_up",
            "now_ms - self._began_ms < REAUTHENTICATES_AFTER_MS",
            "False",
        ),
    ),
    mutant(
        "P70", "extended key usage", "a broker starts with a certificate that others let it do half its work with",
        "", "",
        remove("broker.listener_gate:ListenerGate.__init__", """
            if self._for_brokers:
                check_understanding(settings, settings)
            """),
    ),
    mutant(
        "P71", "CVE-2025-27817", "who writes a client's properties writes the list of whom it may ask",
        "", "",
        replace(
            "cli.client_jvm:with_kafka_opts", "ALLOWED_URLS in given", "ALLOWED_URLS in given.keys() - found.keys()"
        ),
    ),
    mutant(
        "P72", "memory", "who connects again and again has the broker keep its TLS sessions",
        "", "",
        remove("runtime.tls_transport:TlsTransport._say_goodbye", 'self._tls.version() == "TLSv1.3"'),
    ),
    mutant(
        "P73", "KIP-291", "the controller is believed, and believes, on the listener of everybody",
        "", "",
        replace(
            "controller.reign:controller_listener",
            'config.text("control.plane.listener.name") or inter_broker_listener(config)',
            "inter_broker_listener(config)",
        ),
    ),
    mutant(
        "P74", "connections.max.idle.ms", "who says nothing, or takes no answers, stays as long as it likes",
        "", "",
        replace("broker.connections:Connections.close_idle", "self._max_idle_ms < 0", "True"),
    ),
    mutant(
        "P75", "the view", "the admin endpoint asks nobody for a password, whatever its listener says",
        "", "",
        replace("web.door:AdminDoor.asks", "bool(self.gate.mechanisms)", "False"),
    ),
    mutant(
        "P76", "the view", "whoever is let in at the admin endpoint sees what ACLs keep from it",
        "", "",
        replace("web.door:AdminDoor.allows", "not self.gate.authenticates", "True"),
    ),
    mutant(
        "P77", "the view", "what one request to the admin endpoint shows counts for the next ones of its connection",
        "", "",
        replace(
            "web.endpoint:HttpConnection._let_in",
            "not shown or shown != self._shown or now > self._known_until",
            "now > self._known_until",
        ),
    ),
    mutant(
        "P78", "the view", "keys that promise protection are passed over where the admin endpoint's protocol has none",
        "", "",
        replace("web.door:AdminDoor.__init__", "guards is not None", "False"),
    ),
    mutant(
        "P79", "fencing", "who names another's transaction in a produce fences its producer",
        "", "",
        replace(
            "broker.handlers.produce:_unverified",
            "not may_write and not _may_write_in(transactional_id, context)",
            "False",
        ),
    ),
)  # fmt: skip

NOTICED_BY: Final = {
    "P01": f"{_SCRAM}::test_a_foreign_reused_or_longer_nonce_is_refused_even_when_proved",
    "P02": f"{_SCRAM}::test_another_channel_binding_than_the_first_message_had_is_refused_even_when_proved",
    "P03": f"{_SCRAM}::test_a_proof_of_nothing_is_refused_and_the_exchange_is_over",
    "P04": f"{_SCRAM}::test_a_client_demands_a_proof_of_the_broker",
    "P05": f"{_SCRAM}::test_a_client_trusts_no_broker_that_asks_for_less",
    "P06": f"{_SCRAM}::test_a_delegation_token_speaks_for_its_owner_until_it_expires",
    "P07": f"{_SECURITY}/test_plain.py::test_anything_else_is_refused_in_kafkas_words",
    "P08": f"{_TOKENS}::test_an_address_that_is_not_on_the_list_is_refused_at_start",
    "P09": f"{_TOKENS}::test_a_token_that_proves_nothing_is_refused",
    "P10": f"{_TOKENS}::test_a_token_that_proves_nothing_is_refused",
    "P11": f"{_TOKENS}::test_whom_a_token_is_for_and_who_made_it_counts",
    "P12": f"{_LISTENERS}::test_nothing_is_answered_before_the_login_is_over",
    "P13": f"{_SASL}::test_every_other_request_ends_the_connection",
    "P14": f"{_GUARDED}::test_a_failure_is_told_after_a_delay_in_which_nothing_is_read",
    "P15": f"{_GUARDED}::test_a_stranger_may_announce_little",
    "P16": f"{_LISTENERS}::test_half_a_handshake_has_a_deadline",
    "P17": f"{_GUARDED}::test_a_session_ends_and_can_be_prolonged_before",
    "P18": f"{_GUARDED}::test_another_principal_does_not_take_a_session_over",
    "P19": f"{_SASL}::test_a_session_is_prolonged_by_the_same_principal_and_mechanism_alone",
    "P20": f"{_CHANNEL}::test_a_client_of_another_authority_is_named_so",
    "P21": f"{_TLS}::test_a_name_is_checked_unless_nothing_is_to_be_checked",
    "P22": f"{_LISTENERS}::test_nobody_renegotiates",
    "P23": f"{_CHANNEL}::test_what_is_no_tls_ends_the_connection_with_the_reason",
    "P24": f"{_SECURITY}/test_principal_mapping.py::test_whom_no_rule_fits_is_refused",
    "P25": f"{_BROKER}/test_listener_gate.py::test_a_changed_store_speaks_for_the_same_broker_by_the_same_names",
    "P26": f"{_BROKER}/test_protection.py::test_protection_that_is_not_there_is_refused_by_its_key",
    "P27": f"{_ATTACKS}::test_cve_2018_1288_who_only_says_that_it_is_a_follower_moves_no_high_watermark",
    "P28": f"{_ATTACKS}::test_a_follower_that_may_no_more_is_refused_in_the_middle_of_its_session",
    "P29": f"{_ATTACKS}::test_a_producer_that_may_no_more_is_refused_at_its_next_request",
    "P30": f"{_ACLS}::test_a_decision_lasts_until_an_acl_changes",
    "P31": f"{_ACLS}::test_who_is_denied_is_denied_whoever_allows_it",
    "P32": f"{_ACLS}::test_names_that_strangers_make_up_do_not_fill_the_memory",
    "P33": f"{_ATTACKS}::test_what_brokers_and_controllers_say_is_not_taken_from_a_client",
    "P34": f"{_BROKER}/test_delegation_tokens.py::test_a_users_password_changes_while_brokers_run",
    "P35": f"{_BROKER}/test_delegation_tokens.py::test_who_may_change_a_token_and_until_when",
    "P36": f"{_STRANGERS}::test_a_handshake_that_does_not_end_is_ended",
    "P37": f"{_STRANGERS}::test_a_long_frame_is_refused_before_a_session_and_taken_in_one",
    "P38": "tests/process/test_certificates_change.py"
    "::test_a_store_with_another_password_is_taken_up_and_the_password_lies_encrypted",
    "P39": f"{_BROKER}/test_listener_gate.py"
    "::test_a_revoked_certificate_is_refused_from_the_moment_that_the_list_is_read_again",
    "P40": f"{_COMING}::test_what_a_new_listener_needs_comes_with_it_and_a_restart_keeps_it",
    "P41": f"{_COMING}::test_what_a_new_listener_needs_comes_with_it_and_a_restart_keeps_it",
    "P42": f"{_BROKER}/test_delegation_tokens.py::test_who_has_proved_itself_and_not_by_a_token_may_ask_for_tokens",
    "P43": f"{_BROKER}/test_broker_configs.py::test_passwords_are_not_told",
    "P44": f"{_WEB}/test_pages.py::test_what_logs_somebody_in_is_hidden",
    "P45": f"{_WEB}/test_pages.py::test_records_are_not_shown_where_acls_say_who_may_read_and_nobody_is_known",
    "P46": f"{_ENDPOINT}::test_a_name_that_leads_here_and_is_not_this_machines_is_not_answered",
    "P47": f"{_ENDPOINT}::test_a_page_of_another_site_has_nothing_asked",
    "P48": f"{_ENDPOINT}::test_who_does_not_end_a_request_is_ended",
    "P49": f"{_ENDPOINT}::test_who_reads_nothing_of_a_long_answer_is_ended",
    "P50": f"{_ENDPOINT}::test_whoever_waits_for_longest_makes_room",
    "P51": f"{_WEB}/test_history.py::test_an_exported_page_fetches_nothing_and_no_text_ends_its_script",
    "P52": f"{_CLI}/test_log_format.py::test_a_stranger_writes_no_line_and_gives_no_orders",
    "P53": f"{_CLI}/test_output.py::test_a_name_that_is_a_strangers_gives_the_terminal_no_orders",
    "P54": f"{_BROKER}/test_broker_connection.py::test_an_address_has_one_name_the_one_that_acls_and_kafka_have_for_it",
    "P55": f"{_SECURITY}/test_plain.py::test_anything_else_is_refused_in_kafkas_words",
    "P56": f"{_SCRAM}::test_nobody_acts_for_another",
    "P57": f"{_SCRAM}::test_a_credential_of_few_iterations_is_not_used",
    "P58": f"{_SCRAM}::test_a_client_trusts_no_broker_that_asks_for_less",
    "P59": f"{_TLS}::test_old_protocols_are_not_spoken_by_default",
    "P60": "tests/unit/zk/test_zk_watch_acls.py::test_a_watch_of_a_tree_tells_no_names_that_may_not_be_read",
    "P61": "tests/unit/zk/test_zk_client_session.py::test_secure_znodes_are_readable_unless_they_hold_secrets",
    "P62": "tests/unit/zk/test_zk_client_requests.py::test_a_request_that_is_too_long_fails_alone",
    "P63": f"{_CLI}/test_cli_local.py::test_what_the_configuration_holds_is_for_the_owner_alone",
    "P64": "tests/process/test_descriptors.py::test_connections_beyond_the_limits_of_an_address_and_of_all_are_closed",
    "P65": f"{_SECURITY}/test_logins.py"
    "::test_cve_2025_27817_nobody_is_asked_who_is_not_on_the_list_which_is_empty_by_default",
    "P66": f"{_CHANNEL}::test_a_session_is_worth_no_more_than_its_certificate",
    "P67": f"{_CHANNEL}::test_a_session_is_worth_no_more_than_its_certificate",
    "P68": f"{_GUARDED}::test_what_a_token_may_not_do_counts_from_the_login_that_was_by_one",
    "P69": f"{_GUARDED}::test_who_authenticates_again_and_again_is_not_listened_to",
    "P70": f"{_BROKER}/test_listener_gate.py::test_brokers_whose_certificate_is_for_one_side_alone_do_not_start",
    "P71": f"{_CLI}/test_client_jvm.py::test_a_list_of_the_jvms_is_the_only_one",
    "P72": f"{_CHANNEL}::test_no_session_is_kept_where_the_connection_has_ended",
    "P73": "tests/process/test_control_plane.py::test_who_is_not_believed_on_the_controllers_listener_hears_nothing",
    "P74": "tests/process/test_descriptors.py::test_who_says_nothing_for_long_is_closed_with_what_it_did_not_read",
    "P75": f"{_DOOR}::test_nothing_is_told_to_who_does_not_say_a_right_password",
    "P76": f"{_DOOR}::test_acls_say_what_who_is_known_may_see",
    "P77": f"{_DOOR}::test_nothing_is_told_to_who_does_not_say_a_right_password",
    "P78": f"{_DOOR}::test_what_cannot_be_guarded_as_it_is_to_be_does_not_start",
    "P79": f"{_BROKER}/test_attacks.py::test_no_coordinator_is_asked_on_behalf_of_who_may_not_write",
}
