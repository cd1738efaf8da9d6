# SPDX-License-Identifier: Apache-2.0
"""TLS as a client: the context for the connections of a kubeconfig."""

import ssl

from rdd.client.kubeconfig import ConnectionConfig, KubeconfigError


def client_context(config: ConnectionConfig) -> ssl.SSLContext:
    """Return a context that verifies the server and presents the client certificate.

    Raises KubeconfigError if a certificate or key cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As in Go, any certificate in the kubeconfig is a trust anchor, not only root certificates.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if config.is_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif config.authority:
        try:
            context.load_verify_locations(cadata=config.authority)
        except (ssl.SSLError, ValueError):
            raise KubeconfigError(
                "unable to load root certificates: no PEM certificate found"
            ) from None
    else:
        context.load_default_certs()
    if config.client_certificate:
        _load_client_certificate(context, config)
    return context


def _load_client_certificate(context: ssl.SSLContext, config: ConnectionConfig) -> None:
    import tempfile

    # Python's interface to OpenSSL takes files only; this one has mode 0600 and is deleted.
    with tempfile.NamedTemporaryFile("w", prefix="rdd-", suffix=".pem") as pair:
        pair.write(f"{config.client_certificate.rstrip()}\n{config.client_key}\n")
        pair.flush()
        try:
            context.load_cert_chain(pair.name)
        except ssl.SSLError as error:
            raise KubeconfigError(
                f"tls: the client certificate cannot be used: {error.reason}"
            ) from None
