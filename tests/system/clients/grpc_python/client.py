"""Client of gRPC for the tests: calls the health service at each target, and prints the results as JSON lines."""

import json
import sys
import time

import grpc


def dial(target):
    """Opens a channel as a user would: `dial("dns:///web.prod.global:50051")`."""
    return grpc.insecure_channel(
        target,
        options=[
            # The default, pick_first, uses one address.
            ("grpc.service_config", '{"loadBalancingConfig": [{"round_robin": {}}]}'),
            # The default is 30 seconds.
            ("grpc.dns_min_time_between_resolutions_ms", 5000),
            # Detects a dead gateway. Without it, a connection seems alive until TCP gives up.
            ("grpc.keepalive_time_ms", 10000),
            ("grpc.keepalive_timeout_ms", 2000),
            ("grpc.keepalive_permit_without_calls", 1),
        ],
    )


def call_round(check, calls):
    """Makes concurrent calls. Returns the pods that replied, each one once, and the number of calls that failed."""
    pods, failed = set(), 0
    for call in [check.future(b"", timeout=1) for _ in range(calls)]:
        try:
            call.result()
            pods.update(value for key, value in call.initial_metadata() if key == "pod")
        except grpc.RpcError:
            failed += 1
    return {"pods": sorted(pods), "failed": failed}


def main():
    checks = [dial(target).unary_unary("/grpc.health.v1.Health/Check") for target in sys.argv[1:]]
    results = [{"pods": []} for _ in checks]
    while True:
        # Enough calls for one more server than in the round before.
        results = [call_round(check, 2 * len(last["pods"]) + 4) for check, last in zip(checks, results)]
        print(json.dumps(results), flush=True)
        time.sleep(0.1)


main()
