"""Decodes DNS messages with dnspython. Reads one message in hexadecimal per line; writes one JSON object per line."""

import json
import sys

import dns.edns
import dns.message


def sections(message):
    """Returns the records of each section but the question, in zone file syntax."""
    return [[rrset.to_text() for rrset in section] for section in message.sections[1:]]


def canonical_text(message):
    """Returns the whole message as text in lower case, for comparison."""
    question = [rrset.to_text() for rrset in message.sections[0]]
    opt = message.opt and message.opt.to_text()
    return str((message.id, message.flags, question, sections(message), opt)).lower()


def decode(wire):
    message = dns.message.from_wire(wire, ignore_trailing=False, one_rr_per_rrset=True)
    reencoded = dns.message.from_wire(message.to_wire(max_size=65535), ignore_trailing=False, one_rr_per_rrset=True)
    # Compression may change only the case of letters.
    if canonical_text(message) != canonical_text(reencoded):
        raise ValueError("the message differs after encoding and decoding")
    opt = None
    if message.edns >= 0:
        opt = {
            "version": message.edns,
            "payload": message.payload,
            "flags": message.ednsflags & 0xFFFF,
            "options": [[int(option.otype), option.to_wire().hex()] for option in message.options],
        }
    answer, authority, additional = sections(message)
    return {
        "rcode": int(message.rcode()),
        "opcode": int(message.opcode()),
        "questions": len(message.sections[0]),
        "answer": answer,
        "authority": authority,
        "additional": additional,
        "opt": opt,
    }


for line in sys.stdin:
    try:
        result = {"message": decode(bytes.fromhex(line))}
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(result), flush=True)
