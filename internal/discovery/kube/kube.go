// Package kube discovers engines in a Kubernetes cluster: pods selected by an InferencePool, a Service or labels,
// through watches of the API server. It only reads. An engine is declared once its pod is ready. If the pod is no
// longer ready, or terminates, the engine stays declared with weight 0 until the pod is gone: its requests finish, it
// gets no new ones, and the knowledge about its cache stays. While the API server is unavailable, the last endpoints
// stay.
package kube

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/httpclient"
	"github.com/warmpath/warmpath/route"
)

const (
	// together is the delay in which changes are collected before they are published: a rollout changes many pods at
	// once.
	together = 100 * time.Millisecond
	// again is the interval between log lines about the same lasting fault of the API server.
	again = 5 * time.Minute
)

var (
	podResource   = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	sliceResource = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	poolResource  = schema.GroupVersionResource{
		Group: "inference.networking.k8s.io", Version: "v1", Resource: "inferencepools",
	}
	oldPool = schema.GroupVersionResource{
		Group: "inference.networking.x-k8s.io", Version: "v1alpha2", Resource: "inferencepools",
	}
)

// quiet turns client-go's own log off. The method fault logs its errors.
var quiet = sync.OnceFunc(func() {
	klog.SetLogger(logr.Discard())
	utilruntime.ReallyCrash = false // by default client-go ends the process where one of its goroutines panics
})

// Source watches the pods of one entry of discovery.kubernetes.
type Source struct {
	c      discovery.KubernetesConfig
	home   string // default namespace, which is left out of names
	access rest.Config
	client dynamic.Interface
	log    *slog.Logger
	most   bounds // of what is kept of a kind

	changed chan struct{}
	last    []fleet.Endpoint
	sent    bool            // published at least once
	once    map[string]bool // engines that have been ready
	said    map[string]bool // problems of the last snapshot, logged once

	faults sync.Mutex
	silent map[string]time.Time // faults of the API server, and until when they are not logged again
}

// New makes a source. It fails for faults of the configuration or the kubeconfig and for missing keys. Run connects to
// the cluster.
func New(c discovery.KubernetesConfig, keys discovery.Keys, log *slog.Logger) (*Source, error) {
	quiet()
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{})
	access, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no Kubernetes cluster: the router is not in a pod with a service account, "+
			"and there is no kubeconfig (discovery.kubernetes.kubeconfig or KUBECONFIG): %w", err)
	}
	home, _, err := loader.Namespace()
	if err != nil {
		return nil, err
	}
	access.UserAgent = "warmpath"
	return open(c, access, home, keys, log)
}

func open(
	c discovery.KubernetesConfig, access *rest.Config, home string, keys discovery.Keys, log *slog.Logger,
) (*Source, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var err error
	if c.Engine, err = c.Engine.WithKey(keys); err != nil {
		return nil, err
	}
	quiet() // before the client reads the log's settings, which are not guarded
	transport, err := rest.TransportFor(access)
	if err != nil {
		return nil, err
	}
	s := &Source{
		c: c, home: home, access: *access, log: log, changed: make(chan struct{}, 1), once: map[string]bool{},
		said: map[string]bool{}, silent: map[string]time.Time{}, most: bounds{mostObjects, mostKept},
	}
	if s.access.BearerTokenFile != "" {
		s.access.BearerToken = "" // which the client renews by itself
	}
	s.client, err = dynamic.NewForConfigAndClient(access, httpclient.New(bounded{transport, s.fault}))
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Source is the name of the source.
func (s *Source) Source() string { return s.c.Source() }

// Same implements discovery.Runner.
func (s *Source) Same(before discovery.Runner) bool {
	o, ok := before.(*Source)
	return ok && reflect.DeepEqual(s.c, o.c) && s.home == o.home && reflect.DeepEqual(s.access, o.access)
}

// Succeed implements discovery.Successor: which engines have been ready the API server does not say.
func (s *Source) Succeed(before discovery.Runner) {
	if o, ok := before.(*Source); ok && s.home == o.home {
		s.once = o.once
	}
}

// Run watches the cluster until ctx ends.
func (s *Source) Run(ctx context.Context, publish discovery.Publish) {
	var slices, pools, oldPools, pods *follower
	var selector string
	switch {
	case s.c.Service != "":
		slices = s.follow(ctx, sliceResource, slim[endpointSlice], func(o *metav1.ListOptions) {
			o.LabelSelector = "kubernetes.io/service-name=" + s.c.Service
		})
		pods = s.follow(ctx, podResource, slim[pod], nil)
	case s.c.Pool != "":
		only := func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + s.c.Pool }
		pools = s.follow(ctx, poolResource, slim[inferencePool], only)
		oldPools = s.follow(ctx, oldPool, slim[inferencePool], only)
	default:
		pods = s.follow(ctx, podResource, slim[pod], func(o *metav1.ListOptions) { o.LabelSelector = s.c.Selector })
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		}
		if !pause(ctx, together) {
			return
		}
		w := world{slices: all[endpointSlice](slices)}
		if s.c.Pool != "" {
			if w.pool = s.named(pools, oldPools); w.pool == nil && !(pools.answered() && oldPools.answered()) {
				continue
			}
			if w.pool != nil && len(w.pool.labels()) > 0 {
				if want := labels.FormatLabels(w.pool.labels()); want != selector {
					if pods != nil {
						pods.stop()
					}
					selector, pods = want, s.follow(ctx, podResource, slim[pod], func(o *metav1.ListOptions) {
						o.LabelSelector = want
					})
					continue
				}
			}
		}
		if pods != nil && !pods.answered() || slices != nil && !slices.answered() {
			continue
		}
		if w.pods = all[pod](pods); w.pool == nil && s.c.Pool != "" {
			w.pods = nil
		}
		s.publish(w, publish)
	}
}

// named returns the pool, from the newer API version if both have it.
func (s *Source) named(newer, older *follower) *inferencePool {
	for _, f := range []*follower{newer, older} {
		for _, p := range all[inferencePool](f) {
			if p.Name == s.c.Pool {
				return p
			}
		}
	}
	return nil
}

// pause waits. It returns false if ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// publish publishes the engines of a snapshot if they changed.
func (s *Source) publish(w world, publish discovery.Publish) {
	found, problems := engines(&s.c, s.home, w)
	said := map[string]bool{}
	for _, p := range problems {
		if said[p] = true; !s.said[p] {
			s.log.Warn(p, "source", s.Source())
		}
	}
	s.said = said

	var configs []discovery.EndpointConfig
	once := map[string]bool{}
	for _, e := range found {
		if !e.ready && !s.once[e.config.Name] {
			continue
		}
		if once[e.config.Name] = true; !e.ready {
			none := 0.0
			e.config.Weight = &none
		}
		configs = append(configs, e.config)
	}
	s.once = once
	endpoints, err := discovery.Endpoints(configs, discovery.None())
	if err != nil { // too many: each one is valid by itself
		s.fault("endpoints", err)
		return
	}
	if s.sent && discovery.Equal(endpoints, s.last) {
		return
	}
	s.log.Info("endpoints changed", "source", s.Source(), "endpoints", len(endpoints),
		"not_ready", len(found)-len(configs))
	s.last, s.sent = endpoints, true
	publish(route.Declared{Source: s.Source(), Endpoints: slices.Clone(endpoints)})
}

// follower watches one kind of object.
type follower struct {
	informer cache.SharedIndexInformer
	missing  func() bool
	stop     context.CancelFunc
}

// answered reports whether the API server has listed the objects, or does not have the kind.
func (f *follower) answered() bool { return f.informer.HasSynced() || f.missing() }

// all returns the objects in no particular order.
func all[T any](f *follower) (out []*T) {
	if f == nil {
		return nil
	}
	for _, obj := range f.informer.GetStore().List() {
		if t, ok := obj.(*T); ok {
			out = append(out, t)
		}
	}
	return out
}

// follow lists and watches objects until ctx ends or the follower is stopped.
func (s *Source) follow(
	ctx context.Context, kind schema.GroupVersionResource, slim cache.TransformFunc, only func(*metav1.ListOptions),
) *follower {
	ctx, stop := context.WithCancel(ctx)
	namespace := s.c.Namespace
	if namespace == "" {
		namespace = s.home
	}
	objects := s.client.Resource(kind).Namespace(namespace)
	narrowed := func(o metav1.ListOptions) metav1.ListOptions {
		if only != nil {
			only(&o)
		}
		return o
	}
	kept := &census{most: s.most, slim: slim}
	// client-go's dynamicinformer is not used because it links the types of all Kubernetes objects.
	inf := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.Continue == "" && o.Limit > 0 {
				o.ResourceVersion = "" // with 0 servers leave the limit out, and send all at once
			}
			list, err := objects.List(ctx, narrowed(o))
			if err != nil {
				return nil, err
			}
			return list, kept.listed(o, list)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := objects.Watch(ctx, narrowed(o))
			if err != nil {
				return nil, err
			}
			return kept.watched(o, w, func(err error) { s.fault(kind.Resource, err) }), nil
		},
	}, s.client), &unstructured.Unstructured{}, 0, cache.Indexers{})
	var mu sync.Mutex
	missing := false
	_ = inf.SetTransform(slim) // both fail only after the informer has started
	_ = inf.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) && kind.Group == poolResource.Group ||
			apierrors.IsNotFound(err) && kind.Group == oldPool.Group {
			mu.Lock()
			missing = true // this version of the pool is not installed in the cluster
			mu.Unlock()
			s.signal()
			return
		}
		s.fault(kind.Resource, err)
	})
	_, _ = inf.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(any, bool) { s.signal() },
		UpdateFunc: func(any, any) { s.signal() },
		DeleteFunc: func(any) { s.signal() },
	})
	go inf.RunWithContext(ctx)
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), inf.HasSynced) {
			s.signal() // also if there are no objects
		}
	}()
	return &follower{informer: inf, stop: stop, missing: func() bool {
		mu.Lock()
		defer mu.Unlock()
		return missing
	}}
}

// signal wakes Run after a change.
func (s *Source) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// fault logs a fault of the API server, at most once in a while for each.
func (s *Source) fault(what string, err error) {
	text := err.Error()
	switch {
	case apierrors.IsForbidden(err):
		text = "the router's service account may not list and watch " + what +
			" here; bind the Role of docs/kubernetes.md"
	case apierrors.IsUnauthorized(err):
		text = "the cluster rejects the router's credentials"
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		return // client-go lists again
	}
	s.faults.Lock()
	now := time.Now()
	quiet := now.Before(s.silent[what+text])
	if !quiet {
		for key, until := range s.silent {
			if now.After(until) {
				delete(s.silent, key)
			}
		}
		s.silent[what+text] = now.Add(again)
	}
	s.faults.Unlock()
	if !quiet {
		s.log.Warn("cannot watch Kubernetes; keeping the last endpoints",
			"source", s.Source(), "resource", what, "error", text)
	}
}
