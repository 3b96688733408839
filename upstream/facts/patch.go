package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

// attempts is how often a patch is tried. Go visits maps in any order, so a patch with several mistakes, and some
// without, can have several outcomes.
const attempts = 12

// outcome is what a strategic merge patch makes of an object, as the API server does it.
type outcome struct {
	// Panic says that the server would have hung up.
	Panic bool `json:"panic,omitempty"`
	// Error is why the patch was not merged.
	Error string `json:"error,omitempty"`
	// Unreadable is why no object could be made of the merged one.
	Unreadable string `json:"unreadable,omitempty"`
	// Left is what was left of the patch, as it is printed in errors.
	Left string `json:"left,omitempty"`
	// Strict is what strict reading remarks on.
	Strict []string        `json:"strict,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"`
}

// patch answers each question with all the outcomes that were seen.
func patch(in io.Reader, out *bufio.Writer) error {
	return answerAll(in, out, func(asked question, goType reflect.Type) any {
		var outcomes []outcome
		for range attempts {
			seen := merge(asked, goType)
			if !slices.ContainsFunc(outcomes, func(known outcome) bool { return reflect.DeepEqual(known, seen) }) {
				outcomes = append(outcomes, seen)
			}
		}
		return outcomes
	})
}

func merge(asked question, goType reflect.Type) (seen outcome) {
	defer func() {
		if recover() != nil {
			seen = outcome{Panic: true}
		}
	}()
	object := reflect.New(goType).Interface()
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(asked.Text), object); err != nil {
		return outcome{Error: "object: " + err.Error()}
	}
	original, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return outcome{Error: "object: " + err.Error()}
	}
	changes := map[string]any{}
	if _, err := kjson.UnmarshalStrict([]byte(asked.Patch), &changes); err != nil {
		return outcome{Error: err.Error()}
	}
	merged, err := strategicpatch.StrategicMergeMapPatch(original, changes, reflect.New(goType).Interface())
	if err != nil {
		return outcome{Error: err.Error()}
	}
	patched := reflect.New(goType).Interface()
	seen.Left = fmt.Sprintf("%+v", changes)
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(merged, patched, true)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, remark := range strict.Errors() {
			seen.Strict = append(seen.Strict, remark.Error())
		}
	} else if err != nil {
		seen.Unreadable = err.Error()
		return seen
	}
	if seen.Value, err = json.Marshal(patched); err != nil {
		seen.Unreadable = err.Error()
	}
	return seen
}
