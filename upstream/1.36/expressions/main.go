// Command expressions answers what the API server makes of an expression over a value with a schema: why it does not
// compile, what it may cost, what it gives and what that cost.
//
// It reads one JSON question per line on stdin and writes one JSON answer per line on stdout.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

type question struct {
	Schema     json.RawMessage
	Value      json.RawMessage
	Expression string
}

type answer struct {
	Issues  string   `json:"issues,omitempty"`
	Type    string   `json:"type,omitempty"`
	Program string   `json:"program,omitempty"`
	Static  []uint64 `json:"static,omitempty"`
	Result  string   `json:"result,omitempty"`
	Error   string   `json:"error,omitempty"`
	Cost    uint64   `json:"cost"`
}

// sizes looks paths up in the declarations, whatever variable they begin with.
type sizes struct{ root *apiservercel.DeclType }

func (s *sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	if len(node.Path()) == 0 {
		return nil
	}
	at := s.root
	for _, step := range node.Path()[1:] {
		switch step {
		case "@items", "@values":
			at = at.ElemType
		case "@keys":
			at = at.KeyType
		default:
			field, ok := at.Fields[step]
			if !ok {
				return nil
			}
			at = field.Type
		}
		if at == nil {
			return nil
		}
	}
	return &checker.SizeEstimate{Min: 0, Max: uint64(at.MaxElements)}
}

func (s *sizes) EstimateCallCost(function, overload string, target *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	return nil
}

// shown writes a value so that values of different types look different.
func shown(value ref.Val) string {
	switch it := value.(type) {
	case types.Bool, types.Int:
		return fmt.Sprint(it)
	case types.Uint:
		return fmt.Sprintf("%du", uint64(it))
	case types.Double:
		return strconv.FormatFloat(float64(it), 'e', -1, 64)
	case types.String:
		text, _ := json.Marshal(string(it))
		return string(text)
	case types.Bytes:
		return "bytes " + base64.StdEncoding.EncodeToString(it)
	case types.Timestamp:
		return "timestamp " + it.Time.UTC().Format(time.RFC3339Nano)
	case types.Duration:
		return "duration " + strconv.FormatInt(int64(it.Duration), 10)
	case types.Null:
		return "null"
	case *types.Optional:
		if !it.HasValue() {
			return "none"
		}
		return "optional " + shown(it.GetValue())
	case ref.Type:
		return "type " + it.TypeName()
	case traits.Lister:
		var items []string
		for i := it.Iterator(); i.HasNext() == types.True; {
			items = append(items, shown(i.Next()))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case traits.Mapper:
		var entries []string
		for i := it.Iterator(); i.HasNext() == types.True; {
			key := i.Next()
			if key == nil {
				continue // What no schema knows leaves holes.
			}
			entries = append(entries, shown(key)+": "+shown(it.Get(key)))
		}
		sort.Strings(entries)
		return "{" + strings.Join(entries, ", ") + "}"
	}
	return "other " + value.Type().TypeName()
}

func ask(base *environment.EnvSet, q question) (a answer, err error) {
	var props v1.JSONSchemaProps
	if err := json.Unmarshal(q.Schema, &props); err != nil {
		return a, err
	}
	var internal apiextensions.JSONSchemaProps
	if err := v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &internal, nil); err != nil {
		return a, err
	}
	schema, err := structural.NewStructural(&internal)
	if err != nil {
		return a, err
	}
	decl := model.SchemaDeclType(schema, false).MaybeAssignTypeName("selfType")
	set, err := base.Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable("self", decl.CelType()),
			cel.Variable("any", cel.DynType),
			cel.Variable("oldSelf", types.NewOptionalType(decl.CelType())),
		},
		DeclTypes: []*apiservercel.DeclType{decl},
	})
	if err != nil {
		return a, err
	}
	env := set.NewExpressionsEnv()
	ast, issues := env.Compile(q.Expression)
	if issues != nil {
		a.Issues = issues.String()
		return a, nil
	}
	a.Type = ast.OutputType().String()
	estimator := &library.CostEstimator{SizeEstimator: &sizes{decl}}
	cost, err := env.EstimateCost(ast, estimator)
	if err != nil {
		return a, err
	}
	a.Static = []uint64{cost.Min, cost.Max}
	program, err := env.Program(ast, cel.CostLimit(celconfig.PerCallLimit), cel.CostTracking(estimator))
	if err != nil {
		a.Program = err.Error()
		return a, nil
	}
	var value interface{}
	if err := utiljson.Unmarshal(q.Value, &value); err != nil {
		return a, err
	}
	self := schemacel.UnstructuredToVal(value, schema)
	result, details, err := program.Eval(map[string]interface{}{
		"self": self, "any": types.Int(7), "oldSelf": types.OptionalOf(self),
	})
	if details != nil && details.ActualCost() != nil {
		a.Cost = *details.ActualCost()
	}
	if err != nil {
		a.Error = err.Error()
		return a, nil
	}
	a.Result = shown(result)
	return a, nil
}

func main() {
	base := environment.MustBaseEnvSet(version.MajorMinor(1, 36))
	out := bufio.NewWriter(os.Stdout)
	writer := json.NewEncoder(out)
	writer.SetEscapeHTML(false)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		a, err := ask(base, q)
		if err != nil {
			fmt.Fprintln(os.Stderr, q.Expression, err)
			os.Exit(1)
		}
		if err := writer.Encode(a); err != nil {
			os.Exit(1)
		}
	}
	if err := out.Flush(); err != nil {
		os.Exit(1)
	}
}
