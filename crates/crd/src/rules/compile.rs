//! Compiles rules to programs.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go

use std::sync::Arc;

use atoll_cel::{Environment, Program, Shape, Type};
use serde_json::Value;

use super::shapes::{self, shape};
use super::{CompiledRule, RuleSet, Rules};
use crate::compile::{self, CompileMode};
use crate::field_path;
use crate::limits;
use crate::node::{Flags, Node, NodeId, ValidationRule};
use crate::schema::Schema;

const SELF: &str = "self";
const OLD_SELF: &str = "oldSelf";
/// The type name of `self` in messages. Upstream's ends with digits of the time.
const TYPE_NAME: &str = "selfType1";
const REQUEST: u64 = 3 * 1024 * 1024;

/// Properties of a rule that are known without evaluating it.
#[derive(Clone, Debug, Default)]
pub struct RuleReport {
    /// The compilation error of the rule.
    pub error: Option<String>,
    /// Maximum cost of one evaluation.
    pub cost: u64,
    /// Maximum number of evaluations, if nothing else limits it.
    pub cardinality: u64,
    /// Whether it uses `oldSelf`.
    pub uses_old_self: bool,
    /// The compilation error of the message expression.
    pub message_error: Option<String>,
    /// Maximum cost of the message expression; `None` if there is none.
    pub message_cost: Option<u64>,
    /// Compiled size of the constant patterns of both.
    pub patterns: u64,
}

/// Reports about the rules of a schema, without those of its parts. `None` if the value is not visible to
/// expressions. `is_object` says whether it is the schema of a complete object.
pub fn reports(schema: &Value, is_object: bool) -> Option<Vec<RuleReport>> {
    let schema = compile::schema(Some(schema), false, CompileMode::Objects);
    let node = schema.root();
    let sized = shape(&schema.nodes, node, is_object, TYPE_NAME)?;
    let environments = Environments::new(&sized.shape);
    let rules = node.extra.as_ref().map_or(&[][..], |extra| &extra.rules);
    let cardinality = REQUEST / (sized.least + 1);
    let reports = rules.iter().map(|rule| {
        let (_, mut report) = one(&schema.nodes, node, rule, &environments, &sized.shape);
        report.cardinality = cardinality;
        report
    });
    Some(reports.collect())
}

impl Schema {
    /// The compiled rules, compiled on first use.
    pub(crate) fn rules(&self) -> &Rules {
        self.rules.get_or_init(|| compile_from(&self.nodes, (self.root, true)))
    }
}

/// The compiled rules of a part of a schema.
pub(crate) fn compile_from(nodes: &[Node], (id, is_object): (NodeId, bool)) -> Rules {
    let mut rules = Rules::default();
    if nodes[id.0 as usize].is(Flags::HOLDS_RULES) {
        compile_below(nodes, &seen_nodes(nodes), (id, is_object), &mut rules);
    }
    rules
}

/// Number of nodes that are visible from each node, including itself. Child nodes come before their parents.
fn seen_nodes(nodes: &[Node]) -> Vec<u64> {
    let mut seen: Vec<u64> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let children = node.properties.iter().map(|property| property.node);
        let children = children.chain(node.items).chain(node.rest.node());
        let below = children.map(|child| seen.get(child.0 as usize).copied().unwrap_or_default());
        seen.push(below.fold(1, u64::saturating_add));
    }
    seen
}

/// Compiles the rules of a node and of all visible nodes below.
fn compile_below(nodes: &[Node], counts: &[u64], (id, is_object): (NodeId, bool), rules: &mut Rules) {
    let node = &nodes[id.0 as usize];
    if !node.is(Flags::HOLDS_RULES) || rules.sets.contains_key(&(id, is_object)) {
        return;
    }
    let own = node.extra.as_ref().map_or(&[][..], |extra| &extra.rules);
    let visible = shapes::is_visible(nodes, node);
    if !own.is_empty() {
        let texts = own.iter().flat_map(|rule| [&*rule.rule, &*rule.message_expression]);
        let size = limits::rules_size(counts[id.0 as usize], texts);
        rules.size = rules.size.saturating_add(size);
        let sized = if rules.is_too_large() { None } else { shape(nodes, node, is_object, TYPE_NAME) };
        let set = sized.map(|sized| {
            let environments = Environments::new(&sized.shape);
            let mut compiled = Vec::with_capacity(own.len());
            for rule in own {
                let (made, report) = one(nodes, node, rule, &environments, &sized.shape);
                rules.size = rules.size.saturating_add(report.patterns);
                rules.patterns = rules.patterns.saturating_add(report.patterns);
                compiled.push(match rules.is_too_large() {
                    true => CompiledRule::failed(limits::too_large()),
                    false => made,
                });
            }
            let uses_old = compiled.iter().any(|rule| rule.uses_old);
            RuleSet { shape: sized.shape, rules: compiled.into(), uses_old }
        });
        rules.sets.insert((id, is_object), set);
    }
    let seen = |child: &NodeId| visible && shapes::is_visible(nodes, &nodes[child.0 as usize]);
    let properties = node.properties.iter().map(|property| property.node).filter(seen);
    for child in properties.chain(node.items).chain(node.rest.node()) {
        compile_below(nodes, counts, (child, nodes[child.0 as usize].is(Flags::EMBEDS)), rules);
    }
}

/// The environments of rules.
struct Environments {
    plain: Environment,
    /// With an optional `oldSelf`.
    optional: Environment,
}

impl Environments {
    fn new(shape: &Arc<Shape>) -> Environments {
        let base = Environment::new().with_shape(SELF, shape);
        let old = shape.type_of();
        Environments {
            plain: base.clone().with_shape(OLD_SELF, shape),
            optional: match old {
                Some(old) => base.with(OLD_SELF, Type::optional(old)),
                None => base,
            },
        }
    }
}

fn one(
    nodes: &[Node],
    node: &Node,
    rule: &ValidationRule,
    environments: &Environments,
    shape: &Arc<Shape>,
) -> (CompiledRule, RuleReport) {
    let mut compiled = CompiledRule::default();
    let mut report = RuleReport::default();
    if rule.rule.trim().is_empty() {
        return (compiled, report);
    }
    let environment =
        if rule.optional_old_self == Some(true) { &environments.optional } else { &environments.plain };
    let wanted = (&Type::Bool, "compilation failed: ", "cel expression must evaluate to a bool");
    match program(environment, &rule.rule, wanted, shape) {
        Err(error) => {
            compiled.error = Some(error.as_str().into());
            report.error = Some(error);
            return (compiled, report);
        }
        Ok(made) => {
            report.cost = made.cost;
            report.patterns += made.program.patterns_size();
            report.uses_old_self = made.uses_old;
            compiled.uses_old = made.uses_old;
            compiled.program = Some(made.program);
        }
    }
    if !rule.message_expression.is_empty() {
        let wanted = (
            &Type::String,
            "messageExpression compilation failed: ",
            "messageExpression must evaluate to a string",
        );
        match program(environment, &rule.message_expression, wanted, shape) {
            Err(error) => {
                report.message_error = Some(error);
                return (compiled, report);
            }
            Ok(made) => {
                report.message_cost = Some(made.cost);
                report.patterns += made.program.patterns_size();
                compiled.message = Some(made.program);
            }
        }
    }
    if !rule.field_path.is_empty()
        && let Ok((path, _)) = field_path::resolve(nodes, node, &rule.field_path, true)
    {
        compiled.field_path = path.to_string().into();
    }
    (compiled, report)
}

struct CompiledExpression {
    program: Program,
    cost: u64,
    uses_old: bool,
}

fn program(
    environment: &Environment,
    text: &str,
    (wanted, failed, wrong): (&Type, &str, &str),
    shape: &Arc<Shape>,
) -> Result<CompiledExpression, String> {
    let expression = environment.compile(text).map_err(|issues| format!("{failed}{issues}"))?;
    if expression.result_type() != wanted {
        return Err(wrong.to_owned());
    }
    let program = expression.program().map_err(|error| {
        let what = if wanted == &Type::Bool { "program" } else { "messageExpression" };
        format!("{what} instantiation failed: {error}")
    })?;
    Ok(CompiledExpression {
        program,
        cost: expression.estimate(Some(shape)).max,
        uses_old: expression.uses(OLD_SELF),
    })
}
