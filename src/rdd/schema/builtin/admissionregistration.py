# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (one member per line, with its description)
"""Shapes of admissionregistration.k8s.io."""

PACKAGE = "io.k8s.api.admissionregistration.v1"
GROUP = "admissionregistration.k8s.io"

_WEBHOOK = """
  name                     string  !                                            # Fully qualified name.
  clientConfig             WebhookClientConfig  !                               # How to reach the webhook.
  rules                    []RuleWithOperations  atomic                         # Requests that the webhook receives.
  failurePolicy            *FailurePolicyType(string)  enum=Fail|Ignore         # What happens when the webhook cannot be called.
  matchPolicy              *MatchPolicyType(string)  enum=Equivalent|Exact      # Whether rules match other versions of a resource.
  namespaceSelector        *meta.LabelSelector                                  # Only objects in matching namespaces.
  objectSelector           *meta.LabelSelector                                  # Only matching objects.
  sideEffects              *SideEffectClass(string)  !  enum=None|NoneOnDryRun|Some|Unknown  # What it does besides answering.
  timeoutSeconds           *int32                                               # How long an answer may take, 1 to 30.
  admissionReviewVersions  []string  !  atomic                                  # AdmissionReview versions it reads, best first.
"""
_MATCH_CONDITIONS = """
  matchConditions          []MatchCondition  by=name merge=name                 # CEL expressions that must all be true.
"""

TEXT = f"""
ValidatingWebhookConfiguration kind  # Webhooks that may refuse requests.
  webhooks  []ValidatingWebhook  by=name merge=name  # The webhooks.

MutatingWebhookConfiguration kind  # Webhooks that may change or refuse objects.
  webhooks  []MutatingWebhook  by=name merge=name  # The webhooks.

ValidatingWebhook  # A webhook that may refuse requests.
{_WEBHOOK}{_MATCH_CONDITIONS}
MutatingWebhook  # A webhook that may change or refuse objects.
{_WEBHOOK}
  reinvocationPolicy       *ReinvocationPolicyType(string)  enum=IfNeeded|Never  # Whether it is called again after changes by others.
{_MATCH_CONDITIONS}
WebhookClientConfig  # How to reach a webhook: a URL or a service.
  url       *string            # An https URL.
  service   *ServiceReference  # A service in the cluster.
  caBundle  []byte             # PEM certificates that sign the server's certificate.

ServiceReference  # Names a service.
  namespace  string  !  # Its namespace.
  name       string  !  # Its name.
  path       *string    # URL path of the request.
  port       *int32     # Port, 443 if unset.

RuleWithOperations  # Matches operations on resources.
  operations   []OperationType(string)  atomic enum=*|CONNECT|CREATE|DELETE|UPDATE  # CREATE, UPDATE, DELETE, CONNECT or *.
  apiGroups    []string  atomic in=Rule                 # Groups; * is all.
  apiVersions  []string  atomic in=Rule                 # Versions; * is all.
  resources    []string  atomic in=Rule                 # Resources with subresources; * is all.
  scope        *ScopeType(string)  enum=*|Cluster|Namespaced in=Rule  # Cluster, Namespaced or *.

NamedRuleWithOperations atomic  # Matches operations on resources or on single objects.
  resourceNames  []string  atomic                 # The only objects it matches; empty for all.
  operations     []OperationType(string)  atomic enum=*|CONNECT|CREATE|DELETE|UPDATE in=RuleWithOperations  # CREATE, UPDATE, DELETE, CONNECT or *.
  apiGroups      []string  atomic in=RuleWithOperations.Rule                 # Groups; * is all.
  apiVersions    []string  atomic in=RuleWithOperations.Rule                 # Versions; * is all.
  resources      []string  atomic in=RuleWithOperations.Rule                 # Resources with subresources; * is all.
  scope          *ScopeType(string)  enum=*|Cluster|Namespaced in=RuleWithOperations.Rule  # Cluster, Namespaced or *.

MatchCondition  # A CEL condition.
  name        string  !  # Its name.
  expression  string  !  # CEL that yields a bool.

ValidatingAdmissionPolicy kind  # Rules in CEL that may refuse requests.
  spec    ValidatingAdmissionPolicySpec    # The rules.
  status  ValidatingAdmissionPolicyStatus  # What the server found out about them.

ValidatingAdmissionPolicySpec  # Rules.
  paramKind         *ParamKind                                    # Kind of the parameters.
  matchConstraints  *MatchResources                               # Which requests the policy is about.
  validations       []Validation  atomic                          # The rules.
  failurePolicy     *FailurePolicyType(string)  enum=Fail|Ignore  # What happens when a rule cannot be evaluated.
  auditAnnotations  []AuditAnnotation  atomic                     # What is added to the audit log.
  matchConditions   []MatchCondition  by=name merge=name          # CEL expressions that must all be true.
  variables         []Variable  by=name merge=name                # Named CEL expressions for use in others.

ParamKind atomic  # Kind of the parameters.
  apiVersion  string  # Its API version.
  kind        string  # Its name.

MatchResources atomic  # Selects requests.
  namespaceSelector     *meta.LabelSelector                              # Only objects in matching namespaces.
  objectSelector        *meta.LabelSelector                              # Only matching objects.
  resourceRules         []NamedRuleWithOperations  atomic                # What is selected.
  excludeResourceRules  []NamedRuleWithOperations  atomic                # What is not selected after all.
  matchPolicy           *MatchPolicyType(string)  enum=Equivalent|Exact  # Whether rules match other versions of a resource.

Validation  # A rule.
  expression         string  !              # CEL that yields true for what is allowed.
  message            string                 # Why a request is refused.
  reason             *StatusReason(string)  # Why, in one word.
  messageExpression  string                 # CEL that yields the message.

AuditAnnotation  # An entry of the audit log.
  key              string  !  # Its key.
  valueExpression  string  !  # CEL that yields its value or null.

Variable atomic  # A named expression.
  name        string  !  # Its name.
  expression  string  !  # Its CEL.

ValidatingAdmissionPolicyStatus  # What the server found out about a policy.
  observedGeneration  int64                         # The generation that was looked at.
  typeChecking        *TypeChecking                 # Result of checking the expressions.
  conditions          []meta.Condition  by=type     # Observations.

TypeChecking  # Result of checking expressions.
  expressionWarnings  []ExpressionWarning  atomic  # What is wrong with them.

ExpressionWarning  # A problem of an expression.
  fieldRef  string  !  # Where the expression is.
  warning   string  !  # What is wrong.

ValidatingAdmissionPolicyBinding kind  # Puts a policy into force.
  spec  ValidatingAdmissionPolicyBindingSpec  +  # How it is put into force.

ValidatingAdmissionPolicyBindingSpec  # How a policy is put into force.
  policyName         string  +                         # The policy.
  paramRef           *ParamRef                         # Its parameters.
  matchResources     *MatchResources                   # Narrows what the policy is about.
  validationActions  []ValidationAction(string)  + set enum=Audit|Deny|Warn  # Deny, Warn or Audit.

MutatingAdmissionPolicy kind  # Changes in CEL that are made to objects.
  spec  MutatingAdmissionPolicySpec  +  # The changes.

MutatingAdmissionPolicySpec  # Changes.
  paramKind           *ParamKind                                             # Kind of the parameters.
  matchConstraints    *MatchResources                                        # Which requests the policy is about.
  variables           []Variable  atomic                                     # Named CEL expressions for use in others.
  mutations           []Mutation  atomic                                     # The changes, in their order.
  failurePolicy       *FailurePolicyType(string)  enum=Fail|Ignore           # What happens when a change cannot be made.
  matchConditions     []MatchCondition  by=name merge=name                   # CEL expressions that must all be true.
  reinvocationPolicy  ReinvocationPolicyType(string)  enum=IfNeeded|Never    # Whether it is made again after changes by others.

Mutation  # A change.
  patchType           PatchType(string)  !  enum=ApplyConfiguration|JSONPatch  # The form of the change.
  applyConfiguration  *ApplyConfiguration                                    # Fields to set, merged as server-side apply does.
  jsonPatch           *JSONPatch                                             # Operations of a JSON patch.

ApplyConfiguration  # Fields to set.
  expression  string  # CEL that yields an Object.

JSONPatch  # Operations of a JSON patch.
  expression  string  # CEL that yields a list of JSONPatch.

MutatingAdmissionPolicyBinding kind  # Puts a policy into force.
  spec  MutatingAdmissionPolicyBindingSpec  +  # How it is put into force.

MutatingAdmissionPolicyBindingSpec  # How a policy is put into force.
  policyName      string  +        # The policy.
  paramRef        *ParamRef        # Its parameters.
  matchResources  *MatchResources  # Narrows what the policy is about.

ParamRef atomic  # Names or selects parameters.
  name                     string                                # Name of the parameter object.
  namespace                string                                # Its namespace.
  selector                 *meta.LabelSelector                   # Selects parameter objects.
  parameterNotFoundAction  *ParameterNotFoundActionType(string)  # Allow or Deny when there is none.
"""
