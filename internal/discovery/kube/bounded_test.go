package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/warmpath/warmpath/internal/discovery"
)

// TestValues: a row of values passes as it is, each within the bound, and one beyond it ends the reading, however its
// lines are broken.
func TestValues(t *testing.T) {
	read := func(text string) (string, error) {
		told := error(nil)
		v := &values{
			ReadCloser: io.NopCloser(iotest.HalfReader(strings.NewReader(text))), most: 40,
			told: func(err error) { told = err },
		}
		out, err := io.ReadAll(v)
		if !errors.Is(told, err) && err != nil || told != nil && err == nil {
			t.Errorf("%.60q: told %v, want %v", text, told, err)
		}
		return string(out), err
	}
	for _, row := range []string{
		`{"type":"ADDED","object":{"a":[1,{}]}}`, "{}\n", `{"a":"}}}{[\""}`, "[\n1,\n2]", "{\"a\":\"\\\\\"}\n",
		"no JSON",
	} {
		text := row
		if row != "no JSON" {
			text = strings.Repeat(row, 1000)
		}
		if out, err := read(text); err != nil || out != text {
			t.Errorf("%q: %d of %d bytes, %v", row, len(out), len(text), err)
		}
	}
	for _, beyond := range []string{
		`{"a":"`, "{\n", "{}\n\n ", `{"a":"}`, `{"a":"\"}`, "<html>", "[{},",
	} {
		if out, err := read(beyond + strings.Repeat(beyond[len(beyond)-1:], 100)); err == nil {
			t.Errorf("%q: all of %d bytes are taken", beyond, len(out))
		}
		if _, err := read("{}" + beyond + strings.Repeat("\n", 100)); err == nil {
			t.Errorf("%q: blank lines without end are taken", beyond)
		}
	}
}

// TestEventWithoutEnd: it is not kept, the log says so once, and what comes afterwards counts.
func TestEventWithoutEnd(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t, pods)
	s.endless = true
	heard, log := follow(t, s, discovery.KubernetesConfig{Selector: "app=vllm", Port: "8000"})
	for log.count("more than 16 MiB") == 0 {
		time.Sleep(time.Millisecond)
	}
	s.mu.Lock()
	s.endless = false
	s.mu.Unlock()
	s.put("pods", podOf("a", "10.0.0.1", true))
	until(t, heard, "a http://10.0.0.1:8000")
	if n := log.count("more than 16 MiB"); n != 1 {
		t.Errorf("it was said %d times", n)
	}
}

// TestObjectsWithoutEnd: a server that lists more objects than are kept, or whose watch brings ever more of them, costs
// no more memory: the log says so, the last endpoints stay, and what it lists later counts.
func TestObjectsWithoutEnd(t *testing.T) {
	t.Parallel()
	const most = 100
	const short, long = 10, 40_000
	for name, row := range map[string]struct {
		listed, watched int
		label           int // bytes of what each has beside
		kind            string
		said            string
	}{
		"in lists":        {most + 1, 0, short, "ADDED", "more than 100 objects"},
		"in pages":        {3 * most, 0, short, "ADDED", "more than 100 objects"},
		"in watches":      {2, 10 * most, short, "ADDED", "more than 100 objects"},
		"long in lists":   {most / 2, 0, long, "ADDED", "take more than 1 MiB"},
		"long in pages":   {3 * most, 0, long, "ADDED", "take more than 1 MiB"},
		"long in watches": {2, most / 2, long, "ADDED", "take more than 1 MiB"},
		"that grow":       {2, most / 2, long, "MODIFIED", "take more than 1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sane atomic.Bool
			object := func(i int) string {
				return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p%d","namespace":"models",`+
					`"resourceVersion":"5","annotations":{"a":"%s"}},"status":{"podIP":"10.0.%d.%d","phase":"Running",`+
					`"conditions":[{"type":"Ready","status":"True"}]}}`, i, strings.Repeat("x", row.label), i>>8, i&255)
			}
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				w.Header().Set("Content-Type", "application/json")
				switch {
				case q.Get("sendInitialEvents") != "":
					w.WriteHeader(http.StatusUnprocessableEntity)
					_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure",`+
						`"reason":"Invalid","code":422}`)
				case q.Get("watch") != "":
					for i := range row.watched {
						if !sane.Load() {
							_, _ = fmt.Fprintf(w, `{"type":"%s","object":%s}`, row.kind, object(10+i))
						}
					}
					w.(http.Flusher).Flush()
					<-r.Context().Done()
				default:
					from, to, more := 0, row.listed, ""
					if sane.Load() {
						to = 1
					}
					if strings.HasSuffix(name, "in pages") && !sane.Load() {
						from, _ = strconv.Atoi(q.Get("continue"))
						to = from + most/2
						more = fmt.Sprintf(`,"continue":"%d"`, to)
					}
					var items []string
					for i := from; i < to; i++ {
						items = append(items, object(i))
					}
					_, _ = fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"%s},`+
						`"items":[%s]}`, more, strings.Join(items, ","))
				}
			}))
			t.Cleanup(func() {
				s.CloseClientConnections()
				s.Close()
			})
			log := &logged{}
			src, err := open(discovery.KubernetesConfig{Selector: "app=vllm", Port: "8000"},
				&rest.Config{Host: s.URL, QPS: 1000, Burst: 1000}, "models", discovery.None(),
				slog.New(slog.NewTextHandler(log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			src.most = bounds{most, 1 << 20}
			heard := run(t, src)
			for log.count(row.said) == 0 {
				time.Sleep(time.Millisecond)
			}
			sane.Store(true)
			for {
				got := <-heard
				if len(got) > most {
					t.Fatalf("%d engines", len(got))
				}
				if len(got) == 1 {
					break
				}
			}
		})
	}
}

// TestCensus: a watch that begins with all objects takes the place of what was kept, what has gone counts no more, and
// what has changed counts once.
func TestCensus(t *testing.T) {
	object := func(name string, label int) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
			"name": name, "labels": map[string]any{"a": strings.Repeat("x", label)},
		}}}
	}
	all, c := true, census{most: bounds{2, 1000}, slim: slim[pod]}
	for range 3 {
		from := watch.NewFakeWithChanSize(8, false)
		from.Add(object("a", 100))
		from.Add(object("b", 100))
		from.Modify(object("b", 500))
		from.Delete(object("b", 500))
		from.Add(object("c", 10))
		for range 2 {
			from.Modify(object("c", 400))
		}
		from.Action(watch.Bookmark, object("", 5000))
		w := c.watched(metav1.ListOptions{SendInitialEvents: &all}, from, func(err error) { t.Error(err) })
		for range 8 {
			if e := <-w.ResultChan(); e.Type == watch.Error {
				t.Errorf("%+v", e)
			}
		}
		w.Stop()
	}
	if small, _ := slim[pod](object("a", 900)); c.keeps(object("a", 900), small) == nil {
		t.Error("two are kept that are longer than may be")
	}
}

// TestServerHangs: a server that does not answer, or does not go on, is given up and asked again, and one that says
// when to come again is asked when client-go would ask it otherwise.
func TestServerHangs(t *testing.T) {
	const watch = "http://k8s/api/v1/pods?watch=true&timeoutSeconds=300"
	for name, row := range map[string]struct {
		url         string
		head        time.Duration // when it begins to answer
		after       string        // Retry-After
		least, most time.Duration // when the exchange has ended
		answered    bool
	}{
		"no answer":                {watch, 1000 * time.Hour, "", headWithin, headWithin, false},
		"no list":                  {"http://k8s/api/v1/pods", 1000 * time.Hour, "", headWithin, headWithin, false},
		"a list that stops":        {"http://k8s/api/v1/pods", time.Minute, "", listWithin, listWithin, true},
		"a watch past its time":    {watch, time.Second, "", 5 * time.Minute, 6 * time.Minute, true},
		"come again in two months": {watch, time.Second, "5000000", 5 * time.Minute, 6 * time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				b := bounded{roundTrips(func(r *http.Request) (*http.Response, error) {
					select {
					case <-r.Context().Done():
						return nil, context.Cause(r.Context())
					case <-time.After(row.head):
					}
					body, silent := io.Pipe()
					context.AfterFunc(r.Context(), func() { _ = silent.CloseWithError(r.Context().Err()) })
					return &http.Response{Header: http.Header{"Retry-After": {row.after}}, Body: body}, nil
				}), func(string, error) {}}
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, row.url, nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := b.RoundTrip(r)
				if row.answered != (err == nil) {
					t.Fatal(err)
				}
				if err == nil {
					if again := res.Header.Get("Retry-After"); again != "" {
						t.Errorf("asked again after %s s", again)
					}
					_, err = io.ReadAll(res.Body)
					_ = res.Body.Close()
				}
				if took := time.Since(began); err == nil || took < row.least || took > row.most {
					t.Errorf("ended after %v: %v", took, err)
				}
			})
		})
	}
}

type roundTrips func(*http.Request) (*http.Response, error)

func (f roundTrips) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
