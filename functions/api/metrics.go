package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are those of the handler. Every label comes from the table of routes or from a short list, so their number
// does not grow with basins, streams or what clients send.
type metrics struct {
	requests  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	inFlight  prometheus.Gauge
	bytesIn   prometheus.Counter
	bytesOut  prometheus.Counter
	streaming prometheus.Gauge
	records   prometheus.Histogram
	batch     prometheus.Histogram
	ack       prometheus.Histogram
}

func newMetrics(o *Options) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tailrace_http_requests_total", Help: "Requests answered, by route and class of status.",
		}, []string{"route", "class"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tailrace_http_request_duration_seconds", Help: "Time from a request's headers to the end of its answer; event streams and sessions are left out.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tailrace_http_requests_in_flight", Help: "Requests being answered.",
		}),
		bytesIn: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tailrace_http_request_bytes_total", Help: "Bytes of request bodies, decompressed.",
		}),
		bytesOut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tailrace_http_response_bytes_total", Help: "Bytes of response bodies, as sent.",
		}),
		streaming: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tailrace_http_streaming", Help: "Event streams and sessions that are open.",
		}),
		records: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tailrace_append_batch_records", Help: "Records of an acknowledged batch.",
			Buckets: []float64{1, 2, 5, 10, 50, 100, 500, 1000},
		}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tailrace_append_batch_bytes", Help: "Metered bytes of an acknowledged batch.",
			Buckets: prometheus.ExponentialBuckets(64, 4, 8),
		}),
		ack: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tailrace_append_ack_latency_seconds", Help: "Time from a decoded batch to its acknowledgement.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5},
		}),
	}
	o.Registry.MustRegister(m.requests, m.duration, m.inFlight, m.bytesIn, m.bytesOut, m.streaming, m.records, m.batch, m.ack)
	if o.Version != "" {
		info := prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tailrace_build_info", Help: "The version that runs; the value is 1.", ConstLabels: prometheus.Labels{"version": o.Version},
		})
		info.Set(1)
		o.Registry.MustRegister(info)
	}
	return m
}

// observe counts a request that is over.
func (m *metrics) observe(x *exchange, took time.Duration) {
	route := x.route
	if route == "" {
		route = "none"
	}
	class := "none" // the client was gone before an answer
	if x.status != 0 {
		class = strconv.Itoa(x.status/100) + "xx"
	}
	m.requests.WithLabelValues(route, class).Inc()
	if !x.stream {
		m.duration.WithLabelValues(route).Observe(took.Seconds())
	}
	m.bytesIn.Add(float64(x.in))
	m.bytesOut.Add(float64(x.out))
}

// prometheus shows everything in the registry, in the text format. The library compresses by itself.
func (h *handler) prometheus(x *exchange, r *http.Request) error {
	h.scrape.ServeHTTP(x, r)
	return nil
}

func scrapeHandler(registry *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}
