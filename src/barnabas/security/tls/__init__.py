"""TLS as Kafka configures it: stores, contexts, and who a certificate says its owner is.

`stores` reads what ``ssl.keystore.*`` and ``ssl.truststore.*`` name, `settings` makes contexts of it for either side,
`names` writes a certificate's subject as Java does, `principal_mapping` makes a user's name of that.
"""
