package kube

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/warmpath/warmpath/internal/discovery"
)

// TestListsComeInPages: a server that has no initial events in a watch is asked for pages, in the way that has it send
// some, and what is not used of their objects is dropped before the next page comes.
func TestListsComeInPages(t *testing.T) {
	t.Parallel()
	const all = 1200
	var most atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		w.Header().Set("Content-Type", "application/json")
		if q.Get("watch") != "" {
			if q.Get("sendInitialEvents") != "" {
				w.WriteHeader(http.StatusUnprocessableEntity)
				_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid",`+
					`"code":422}`)
				return
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		from, to, more := 0, all, ""
		if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 && q.Get("resourceVersion") != "0" {
			from, _ = strconv.Atoi(q.Get("continue"))
			if to = min(all, from+limit); to < all {
				more = fmt.Sprintf(`,"continue":"%d"`, to)
			}
		}
		most.Store(max(most.Load(), int64(to-from)))
		var items []string
		for i := from; i < to; i++ {
			items = append(items, fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p%d",`+
				`"namespace":"models","resourceVersion":"5","labels":{"app":"vllm"}},"status":{"podIP":"10.0.%d.%d",`+
				`"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, i, i>>8, i&255))
		}
		_, _ = fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"%s},"items":[%s]}`,
			more, strings.Join(items, ","))
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	heard, _ := followAt(t, &rest.Config{Host: s.URL, QPS: 1000, Burst: 1000},
		discovery.KubernetesConfig{Selector: "app=vllm", Port: "8000"})
	if got := len(<-heard); got != all || most.Load() > 500 {
		t.Errorf("%d engines, of %d pods in one answer; want %d, 500 at most", got, most.Load(), all)
	}
	list := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{{Object: map[string]any{
		"metadata": map[string]any{"name": "p", "managedFields": []any{map[string]any{"manager": "kubelet"}}},
		"spec": map[string]any{"containers": []any{map[string]any{
			"env": []any{map[string]any{"name": "A"}}, "ports": []any{map[string]any{"containerPort": int64(8000)}},
		}}},
	}}}}
	kept := census{most: bounds{mostObjects, mostKept}, slim: slim[pod]}
	if err := kept.listed(metav1.ListOptions{}, list); err != nil {
		t.Fatal(err)
	}
	if left := fmt.Sprint(list.Items[0].Object); strings.Contains(left, "env") || strings.Contains(left, "kubelet") ||
		!strings.Contains(left, "8000") || list.Items[0].GetName() != "p" {
		t.Errorf("left is %s", left)
	}
}
