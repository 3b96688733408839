// Command extension answers what the API server makes of custom objects and their definitions: what it drops, what it
// fills in, and what it refuses.
//
// It reads one JSON question per line on stdin and writes one JSON answer per line on stdout.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"
)

// question is about an object of a schema, beside an old one or alone, or about a definition.
type question struct {
	Schema     json.RawMessage
	Object     json.RawMessage
	Old        json.RawMessage
	Definition json.RawMessage
	Before     json.RawMessage
}

type answer struct {
	// Why the question cannot be answered.
	Error string `json:"error,omitempty"`
	// What reading the object objects to.
	Refused string          `json:"refused,omitempty"`
	Unknown []string        `json:"unknown,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"`
	Create  []string        `json:"create,omitempty"`
	Update  []string        `json:"update,omitempty"`
	Status  []string        `json:"status,omitempty"`
	// What is refused about the definition.
	Definition []string `json:"definition,omitempty"`
	Warnings   []string `json:"warnings,omitempty"`
}

var kind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}

func main() {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	writer := json.NewEncoder(out)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		var given answer
		var err error
		if asked.Definition != nil {
			given, err = definition(scheme, asked)
		} else {
			given, err = object(asked)
		}
		if err != nil {
			given = answer{Error: err.Error()}
		}
		if err := writer.Encode(given); err != nil {
			panic(err)
		}
	}
}

func texts(errors field.ErrorList) []string {
	found := []string{}
	for _, err := range errors {
		found = append(found, string(err.Type)+" "+err.Error())
	}
	sort.Strings(found)
	return found
}

func decodeDefinition(scheme *runtime.Scheme, text json.RawMessage) (*apiextensions.CustomResourceDefinition, error) {
	var external v1.CustomResourceDefinition
	if err := utiljson.Unmarshal(text, &external); err != nil {
		return nil, err
	}
	scheme.Default(&external)
	var internal apiextensions.CustomResourceDefinition
	if err := scheme.Convert(&external, &internal, nil); err != nil {
		return nil, err
	}
	store(&internal)
	return &internal, nil
}

// store remembers the version that is stored, as strategies do.
func store(definition *apiextensions.CustomResourceDefinition) {
	for _, version := range definition.Spec.Versions {
		if version.Storage {
			if !apiextensions.IsStoredVersion(definition, version.Name) {
				definition.Status.StoredVersions = append(definition.Status.StoredVersions, version.Name)
			}
			return
		}
	}
}

// definition may find that upstream's code does not survive a question; nor does it then say anything.
func definition(scheme *runtime.Scheme, asked question) (given answer, err error) {
	defer func() {
		if found := recover(); found != nil {
			err = fmt.Errorf("%v", found)
		}
	}()
	internal, err := decodeDefinition(scheme, asked.Definition)
	if err != nil {
		return answer{}, err
	}
	ctx := context.Background()
	if asked.Before == nil {
		return answer{Definition: texts(validation.ValidateCustomResourceDefinition(ctx, internal))}, nil
	}
	before, err := decodeDefinition(scheme, asked.Before)
	if err != nil {
		return answer{}, err
	}
	internal.Status = *before.Status.DeepCopy()
	store(internal)
	return answer{Definition: texts(validation.ValidateCustomResourceDefinitionUpdate(ctx, internal, before))}, nil
}

// read does to an object what decoding it from a request does.
func read(object map[string]interface{}, structural *structuralschema.Structural) ([]string, error) {
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, err
	}
	unknown = append(unknown, pruning.PruneWithOptions(object, structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, structural)
	fieldErr, paths := objectmeta.CoerceWithOptions(nil, object, structural, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if fieldErr != nil {
		return nil, fieldErr
	}
	unknown = append(unknown, paths...)
	if found {
		if err := objectmeta.SetObjectMeta(object, meta); err != nil {
			return nil, err
		}
	}
	defaulting.Default(object, structural)
	return unknown, nil
}

type recorder struct{ texts []string }

func (r *recorder) AddWarning(_, text string) { r.texts = append(r.texts, text) }

func object(asked question) (answer, error) {
	var external v1.JSONSchemaProps
	if err := utiljson.Unmarshal(asked.Schema, &external); err != nil {
		return answer{}, err
	}
	var props apiextensions.JSONSchemaProps
	if err := v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&external, &props, nil); err != nil {
		return answer{}, err
	}
	structural, err := structuralschema.NewStructural(&props)
	if err != nil {
		return answer{}, err
	}
	if err := defaulting.PruneDefaults(structural); err != nil {
		return answer{}, err
	}
	var object map[string]interface{}
	if err := utiljson.Unmarshal(asked.Object, &object); err != nil {
		return answer{}, err
	}
	unknown, err := read(object, structural)
	if err != nil {
		return answer{Refused: err.Error()}, nil
	}
	value, err := json.Marshal(object)
	if err != nil {
		return answer{}, err
	}
	validator, _, err := apiservervalidation.NewSchemaValidator(&props)
	if err != nil {
		return answer{}, err
	}
	var statusValidator apiservervalidation.SchemaValidator
	if status, ok := props.Properties["status"]; ok {
		if statusValidator, _, err = apiservervalidation.NewSchemaValidator(&status); err != nil {
			return answer{}, err
		}
	}
	var scale *apiextensions.CustomResourceSubresourceScale
	if _, ok := props.Properties["scaled"]; ok {
		selector := ".status.selector"
		scale = &apiextensions.CustomResourceSubresourceScale{
			SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: &selector,
		}
	}
	strategy := customresource.NewStrategy(nil, true, kind, validator, statusValidator, structural, nil, scale, nil)
	ctx := context.Background()
	u := &unstructured.Unstructured{Object: object}
	given := answer{Unknown: unknown, Value: value, Create: texts(strategy.Validate(ctx, u))}
	if asked.Old != nil {
		var old map[string]interface{}
		if err := utiljson.Unmarshal(asked.Old, &old); err != nil {
			return answer{}, err
		}
		if _, err := read(old, structural); err != nil {
			return answer{}, fmt.Errorf("the old object: %w", err)
		}
		before := &unstructured.Unstructured{Object: old}
		warnings := &recorder{}
		ctx := warning.WithWarningRecorder(ctx, warnings)
		given.Update = texts(strategy.ValidateUpdate(ctx, u, before))
		given.Warnings = warnings.texts
		sort.Strings(given.Warnings)
		given.Status = texts(customresource.NewStatusStrategy(strategy).ValidateUpdate(context.Background(), u, before))
	}
	return given, nil
}
