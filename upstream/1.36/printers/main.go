// Command printers answers what `kubectl get` shows of an object: its columns, and the cells and conditions of its row.
//
// It reads one JSON question per line on stdin and writes one JSON answer per line on stdout.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
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
	"k8s.io/kubernetes/pkg/printers"
	"k8s.io/kubernetes/pkg/printers/internalversion"
)

type question struct {
	Group, Version, Kind string
	Object               json.RawMessage
}

// answer holds the table of one object, or why there is none.
type answer struct {
	Error      string                         `json:"error,omitempty"`
	Columns    []metav1.TableColumnDefinition `json:"columns,omitempty"`
	Cells      []any                          `json:"cells,omitempty"`
	Conditions []metav1.TableRowCondition     `json:"conditions,omitempty"`
}

func main() {
	generator := printers.NewTableGenerator().With(internalversion.AddHandlers)
	out := bufio.NewWriter(os.Stdout)
	writer := json.NewEncoder(out)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fail(err)
		}
		if err := writer.Encode(show(generator, asked)); err != nil {
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
	fmt.Fprintln(os.Stderr, "printers:", err)
	os.Exit(1)
}

// show never fails as a whole: some printers do not survive objects that validation would have refused.
func show(generator *printers.HumanReadableGenerator, asked question) (shown answer) {
	defer func() {
		if reason := recover(); reason != nil {
			shown = answer{Error: fmt.Sprint(reason)}
		}
	}()
	kind := schema.GroupVersionKind{Group: asked.Group, Version: asked.Version, Kind: asked.Kind}
	object, err := legacyscheme.Scheme.New(kind)
	if err != nil {
		return answer{Error: err.Error()}
	}
	if err := json.Unmarshal(asked.Object, object); err != nil {
		return answer{Error: err.Error()}
	}
	internal, err := legacyscheme.Scheme.ConvertToVersion(object, runtime.InternalGroupVersioner)
	if err != nil {
		return answer{Error: err.Error()}
	}
	table, err := generator.GenerateTable(internal, printers.GenerateOptions{Wide: true})
	if err != nil {
		return answer{Error: err.Error()}
	}
	row := table.Rows[0]
	return answer{Columns: table.ColumnDefinitions, Cells: row.Cells, Conditions: row.Conditions}
}
