"""Sends queries over TLS or QUIC with dnspython, and prints statuses and records as JSON.

Usage: encrypted.py METHOD PORT CA [--patience SECONDS] [--certificate FILE --key FILE]
       NAME/TYPE…
"""

import argparse
import json
import ssl
import sys

import aioquic
import dns.exception
import dns.message
import dns.query
import dns.quic
import dns.rcode
import dns.version
from aioquic.quic.configuration import QuicConfiguration

ADDRESS = "127.0.0.1"
NAME = "localhost"


def context(options):
    """Returns a TLS context that trusts the CA and has the client certificate, if any."""
    made = ssl.create_default_context(cafile=options.ca)
    if options.certificate:
        made.load_cert_chain(options.certificate, options.key)
    return made


def over_tls(options, queries):
    """Sends each query on a separate connection."""
    for query in queries:
        yield dns.query.tls(
            query, ADDRESS, options.patience, options.port, ssl_context=context(options), server_hostname=NAME
        )


def over_quic(options, queries):
    """Sends all queries on one connection."""
    configuration = QuicConfiguration(alpn_protocols=["doq"], server_name=NAME)
    configuration.load_verify_locations(options.ca)
    if options.certificate:
        configuration.load_cert_chain(options.certificate, options.key)
    with dns.quic.SyncQuicManager(configuration) as manager:
        connection = manager.connect(ADDRESS, options.port)
        for query in queries:
            try:
                yield dns.query.quic(query, ADDRESS, options.patience, options.port, connection=connection)
            except dns.exception.Timeout:
                # dnspython does not report that the server closed the connection; aioquic does.
                sys.exit(f"closed: {connection._connection._close_event}")


def reading(reply):
    records = [data.to_text() for rrset in reply.answer for data in rrset]
    return {"status": dns.rcode.to_text(reply.rcode()), "records": records}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("method", choices=["tls", "quic"])
    parser.add_argument("port", type=int)
    parser.add_argument("ca")
    parser.add_argument("questions", nargs="+")
    parser.add_argument("--patience", type=float, default=60, help="seconds for each question")
    parser.add_argument("--certificate")
    parser.add_argument("--key")
    options = parser.parse_args()
    asked = [question.split("/") for question in options.questions]
    queries = [dns.message.make_query(name, rtype, use_edns=0) for name, rtype in asked]
    over = {"tls": over_tls, "quic": over_quic}[options.method]
    print(json.dumps([reading(reply) for reply in over(options, queries)]))
    versions = f"dnspython {dns.version.version}, aioquic {aioquic.__version__}"
    print(versions, file=sys.stderr)


main()
