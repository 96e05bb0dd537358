"""A receiver of OTLP metrics with OpenTelemetry's own messages: unknown fields are refused with 400. It prints the
port that it listens on, then each request's points as a line of JSON."""

import gzip
import json
from http.server import BaseHTTPRequestHandler, HTTPServer

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest


def points(request):
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                data = getattr(metric, kind)
                rising = kind == "sum" and data.is_monotonic and data.aggregation_temporality == 2
                for point in data.data_points:
                    labels = {of.key: getattr(of.value, of.value.WhichOneof("value")) for of in point.attributes}
                    value = getattr(point, point.WhichOneof("value"))
                    yield [metric.name, metric.unit, kind, rising, labels, value, point.time_unix_nano]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        try:
            assert self.path == "/v1/metrics" and self.headers["Content-Type"] == "application/x-protobuf"
            request = ExportMetricsServiceRequest.FromString(body)
            resource = {of.key: of.value.string_value for of in request.resource_metrics[0].resource.attributes}
            print(json.dumps([resource, list(points(request))]), flush=True)
            self.send_response(200)
        except (AssertionError, DecodeError) as error:
            print(json.dumps(str(error)), flush=True)
            self.send_response(400)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Standard output is for the points."""


server = HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
