// Command defaults answers what the API server makes of an object before any strategy sees it: decoded in its version,
// with defaults, converted to the internal version and back again.
//
// It reads one JSON question per line on stdin and writes one JSON answer per line on stdout.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admission/install"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

type question struct {
	Group, Version, Kind string
	Object               json.RawMessage
}

// answer holds the object as it came out, or why it did not. Settled is the same for the object without its empty
// lists and maps, which is all that a server sees who keeps objects as Go writes them.
type answer struct {
	Error   string          `json:"error,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"`
	Settled json.RawMessage `json:"settled,omitempty"`
}

func main() {
	scheme := legacyscheme.Scheme
	apiextensions.Install(scheme)
	apiregistration.Install(scheme)
	out := bufio.NewWriter(os.Stdout)
	writer := json.NewEncoder(out)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fail(err)
		}
		kind := schema.GroupVersionKind{Group: asked.Group, Version: asked.Version, Kind: asked.Kind}
		if err := writer.Encode(ask(scheme, kind, asked.Object)); err != nil {
			fail(err)
		}
	}
	if err := lines.Err(); err != nil {
		fail(err)
	}
	if err := out.Flush(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "defaults:", err)
	os.Exit(1)
}

func ask(scheme *runtime.Scheme, kind schema.GroupVersionKind, text []byte) answer {
	value, err := pass(scheme, kind, text)
	if err != nil {
		return answer{Error: err.Error()}
	}
	versioned, err := scheme.New(kind)
	if err != nil {
		return answer{Error: err.Error()}
	}
	if err := json.Unmarshal(text, versioned); err != nil {
		return answer{Error: err.Error()}
	}
	again, err := json.Marshal(versioned)
	if err != nil {
		return answer{Error: err.Error()}
	}
	settled, err := pass(scheme, kind, again)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Value: value, Settled: settled}
}

// pass does to an object what decoding a request and encoding the answer do.
func pass(scheme *runtime.Scheme, kind schema.GroupVersionKind, text []byte) ([]byte, error) {
	object, err := scheme.New(kind)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, object); err != nil {
		return nil, err
	}
	scheme.Default(object)
	internal, err := scheme.ConvertToVersion(object, schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		return nil, err
	}
	written, err := scheme.ConvertToVersion(internal, kind.GroupVersion())
	if err != nil {
		return nil, err
	}
	return json.Marshal(written)
}
