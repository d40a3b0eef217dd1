"""TLS as Kafka configures it: stores, contexts, and the user name of a certificate's owner.

`stores` reads the stores of ``ssl.keystore.*`` and ``ssl.truststore.*``, `settings` makes contexts of them for either
side, `names` writes a certificate's subject as Java does, `principal_mapping` maps the subject to a user name.
"""
