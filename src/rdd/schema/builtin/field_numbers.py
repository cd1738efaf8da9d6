# SPDX-License-Identifier: Apache-2.0
"""The protobuf field numbers of the built-in kinds' members.

Facts of the Kubernetes API that do not follow from names or order: numbers are assigned
once and never again, so they have gaps and another order than the members. The
structs themselves are described once, in the files of shapes (see notation);
this table only adds the numbers, and a test holds the two together.

A struct begins at the margin, under the name of its file of shapes. A number
with dots, `2.1`, is a member that Go embeds: it is printed among the members of
its struct, but travels in a message of its own (here field 1 of field 2).
`kind` and `apiVersion` of a kind have none: they travel in the envelope.
"""

from functools import cache

from rdd.schema.builtin import notation

TEXT = """
[meta]
ObjectMeta name=1 generateName=2 namespace=3 selfLink=4 uid=5 resourceVersion=6 generation=7
  creationTimestamp=8 deletionTimestamp=9 deletionGracePeriodSeconds=10 labels=11 annotations=12
  ownerReferences=13 finalizers=14 managedFields=17
OwnerReference kind=1 name=3 uid=4 apiVersion=5 controller=6 blockOwnerDeletion=7
ManagedFieldsEntry manager=1 operation=2 apiVersion=3 time=4 fieldsType=6 fieldsV1=7 subresource=8
ListMeta selfLink=1 resourceVersion=2 continue=3 remainingItemCount=4 shardInfo=5
ShardInfo selector=1
LabelSelector matchLabels=1 matchExpressions=2
LabelSelectorRequirement key=1 operator=2 values=3
FieldSelectorRequirement key=1 operator=2 values=3
Condition type=1 status=2 observedGeneration=3 lastTransitionTime=4 reason=5 message=6
Status metadata=1 status=2 message=3 reason=4 details=5 code=6
StatusDetails name=1 group=2 kind=3 causes=4 retryAfterSeconds=5 uid=6
StatusCause reason=1 message=2 field=3
DeleteOptions gracePeriodSeconds=1 preconditions=2 orphanDependents=3 propagationPolicy=4 dryRun=5
  ignoreStoreReadErrorWithClusterBreakingPotential=6
Preconditions uid=1 resourceVersion=2
WatchEvent type=1 object=2
APIVersions versions=1 serverAddressByClientCIDRs=2
APIGroupList groups=1
APIGroup name=1 versions=2 preferredVersion=3 serverAddressByClientCIDRs=4
GroupVersionForDiscovery groupVersion=1 version=2
ServerAddressByClientCIDR clientCIDR=1 serverAddress=2
APIResourceList groupVersion=1 resources=2
APIResource name=1 namespaced=2 kind=3 verbs=4 shortNames=5 singularName=6 categories=7 group=8
  version=9 storageVersionHash=10

[core]
Namespace metadata=1 spec=2 status=3
NamespaceSpec finalizers=1
NamespaceStatus phase=1 conditions=2
NamespaceCondition type=1 status=2 lastTransitionTime=4 reason=5 message=6
ConfigMap metadata=1 data=2 binaryData=3 immutable=4
Secret metadata=1 data=2 type=3 stringData=4 immutable=5
ServiceAccount metadata=1 secrets=2 imagePullSecrets=3 automountServiceAccountToken=4
ObjectReference kind=1 namespace=2 name=3 uid=4 apiVersion=5 resourceVersion=6 fieldPath=7
LocalObjectReference name=1
Event metadata=1 involvedObject=2 reason=3 message=4 source=5 firstTimestamp=6 lastTimestamp=7
  count=8 type=9 eventTime=10 series=11 action=12 related=13 reportingComponent=14
  reportingInstance=15
EventSource component=1 host=2
EventSeries count=1 lastObservedTime=2
ResourceQuota metadata=1 spec=2 status=3
ResourceQuotaSpec hard=1 scopes=2 scopeSelector=3
ScopeSelector matchExpressions=1
ScopedResourceSelectorRequirement scopeName=1 operator=2 values=3
ResourceQuotaStatus hard=1 used=2

[rbac]
Role metadata=1 rules=2
ClusterRole metadata=1 rules=2 aggregationRule=3
PolicyRule verbs=1 apiGroups=2 resources=3 resourceNames=4 nonResourceURLs=5
AggregationRule clusterRoleSelectors=1
RoleBinding metadata=1 subjects=2 roleRef=3
ClusterRoleBinding metadata=1 subjects=2 roleRef=3
RoleRef apiGroup=1 kind=2 name=3
Subject kind=1 apiGroup=2 name=3 namespace=4

[coordination]
Lease metadata=1 spec=2
LeaseSpec holderIdentity=1 leaseDurationSeconds=2 acquireTime=3 renewTime=4 leaseTransitions=5
  strategy=6 preferredHolder=7

[events]
Event metadata=1 eventTime=2 series=3 reportingController=4 reportingInstance=5 action=6 reason=7
  regarding=8 related=9 note=10 type=11 deprecatedSource=12 deprecatedFirstTimestamp=13
  deprecatedLastTimestamp=14 deprecatedCount=15
EventSeries count=1 lastObservedTime=2

[admissionregistration]
ValidatingWebhookConfiguration metadata=1 webhooks=2
MutatingWebhookConfiguration metadata=1 webhooks=2
ValidatingWebhook name=1 clientConfig=2 rules=3 failurePolicy=4 namespaceSelector=5 sideEffects=6
  timeoutSeconds=7 admissionReviewVersions=8 matchPolicy=9 objectSelector=10 matchConditions=11
MutatingWebhook name=1 clientConfig=2 rules=3 failurePolicy=4 namespaceSelector=5 sideEffects=6
  timeoutSeconds=7 admissionReviewVersions=8 matchPolicy=9 reinvocationPolicy=10
  objectSelector=11 matchConditions=12
WebhookClientConfig service=1 caBundle=2 url=3
ServiceReference namespace=1 name=2 path=3 port=4
RuleWithOperations operations=1 apiGroups=2.1 apiVersions=2.2 resources=2.3 scope=2.4
NamedRuleWithOperations resourceNames=1 operations=2.1 apiGroups=2.2.1 apiVersions=2.2.2
  resources=2.2.3 scope=2.2.4
MatchCondition name=1 expression=2
ValidatingAdmissionPolicy metadata=1 spec=2 status=3
ValidatingAdmissionPolicySpec paramKind=1 matchConstraints=2 validations=3 failurePolicy=4
  auditAnnotations=5 matchConditions=6 variables=7
ParamKind apiVersion=1 kind=2
MatchResources namespaceSelector=1 objectSelector=2 resourceRules=3 excludeResourceRules=4
  matchPolicy=7
Validation expression=1 message=2 reason=3 messageExpression=4
AuditAnnotation key=1 valueExpression=2
Variable name=1 expression=2
ValidatingAdmissionPolicyStatus observedGeneration=1 typeChecking=2 conditions=3
TypeChecking expressionWarnings=1
ExpressionWarning fieldRef=2 warning=3
ValidatingAdmissionPolicyBinding metadata=1 spec=2
ValidatingAdmissionPolicyBindingSpec policyName=1 paramRef=2 matchResources=3 validationActions=4
MutatingAdmissionPolicy metadata=1 spec=2
MutatingAdmissionPolicySpec paramKind=1 matchConstraints=2 variables=3 mutations=4 failurePolicy=5
  matchConditions=6 reinvocationPolicy=7
Mutation patchType=2 applyConfiguration=3 jsonPatch=4
ApplyConfiguration expression=1
JSONPatch expression=1
MutatingAdmissionPolicyBinding metadata=1 spec=2
MutatingAdmissionPolicyBindingSpec policyName=1 paramRef=2 matchResources=3
ParamRef name=1 namespace=2 selector=3 parameterNotFoundAction=4

[apiextensions]
CustomResourceDefinition metadata=1 spec=2 status=3
CustomResourceDefinitionSpec group=1 names=3 scope=4 versions=7 conversion=9
  preserveUnknownFields=10
CustomResourceDefinitionNames plural=1 singular=2 shortNames=3 kind=4 listKind=5 categories=6
CustomResourceDefinitionVersion name=1 served=2 storage=3 schema=4 subresources=5
  additionalPrinterColumns=6 deprecated=7 deprecationWarning=8 selectableFields=9
CustomResourceValidation openAPIV3Schema=1
CustomResourceSubresources status=1 scale=2
CustomResourceSubresourceStatus
CustomResourceSubresourceScale specReplicasPath=1 statusReplicasPath=2 labelSelectorPath=3
CustomResourceColumnDefinition name=1 type=2 format=3 description=4 priority=5 jsonPath=6
SelectableField jsonPath=1
CustomResourceConversion strategy=1 webhook=2
WebhookConversion clientConfig=2 conversionReviewVersions=3
WebhookClientConfig service=1 caBundle=2 url=3
ServiceReference namespace=1 name=2 path=3 port=4
CustomResourceDefinitionStatus conditions=1 acceptedNames=2 storedVersions=3 observedGeneration=4
CustomResourceDefinitionCondition type=1 status=2 lastTransitionTime=3 reason=4 message=5
  observedGeneration=6
ExternalDocumentation description=1 url=2
ValidationRule rule=1 message=2 messageExpression=3 reason=4 fieldPath=5 optionalOldSelf=6
JSONSchemaProps id=1 $schema=2 $ref=3 description=4 type=5 format=6 title=7 default=8 maximum=9
  exclusiveMaximum=10 minimum=11 exclusiveMinimum=12 maxLength=13 minLength=14 pattern=15
  maxItems=16 minItems=17 uniqueItems=18 multipleOf=19 enum=20 maxProperties=21 minProperties=22
  required=23 items=24 allOf=25 oneOf=26 anyOf=27 not=28 properties=29 additionalProperties=30
  patternProperties=31 dependencies=32 additionalItems=33 definitions=34 externalDocs=35
  example=36 nullable=37 x-kubernetes-preserve-unknown-fields=38
  x-kubernetes-embedded-resource=39 x-kubernetes-int-or-string=40 x-kubernetes-list-map-keys=41
  x-kubernetes-list-type=42 x-kubernetes-map-type=43 x-kubernetes-validations=44

[apiregistration]
APIService metadata=1 spec=2 status=3
APIServiceSpec service=1 group=2 version=3 insecureSkipTLSVerify=4 caBundle=5
  groupPriorityMinimum=7 versionPriority=8
ServiceReference namespace=1 name=2 port=3
APIServiceStatus conditions=1
APIServiceCondition type=1 status=2 lastTransitionTime=3 reason=4 message=5

[authentication]
TokenReview metadata=1 spec=2 status=3
TokenReviewSpec token=1 audiences=2
TokenReviewStatus authenticated=1 user=2 error=3 audiences=4
UserInfo username=1 uid=2 groups=3 extra=4
SelfSubjectReview metadata=1 status=2
SelfSubjectReviewStatus userInfo=1
TokenRequest metadata=1 spec=2 status=3
TokenRequestSpec audiences=1 boundObjectRef=3 expirationSeconds=4
TokenRequestStatus token=1 expirationTimestamp=2
BoundObjectReference kind=1 apiVersion=2 name=3 uid=4

[authorization]
SubjectAccessReview metadata=1 spec=2 status=3
SelfSubjectAccessReview metadata=1 spec=2 status=3
LocalSubjectAccessReview metadata=1 spec=2 status=3
SelfSubjectAccessReviewSpec resourceAttributes=1 nonResourceAttributes=2
SubjectAccessReviewSpec resourceAttributes=1 nonResourceAttributes=2 user=3 groups=4 extra=5 uid=6
ResourceAttributes namespace=1 verb=2 group=3 version=4 resource=5 subresource=6 name=7
  fieldSelector=8 labelSelector=9
FieldSelectorAttributes rawSelector=1 requirements=2
LabelSelectorAttributes rawSelector=1 requirements=2
NonResourceAttributes path=1 verb=2
SubjectAccessReviewStatus allowed=1 reason=2 evaluationError=3 denied=4
SelfSubjectRulesReview metadata=1 spec=2 status=3
SelfSubjectRulesReviewSpec namespace=1
SubjectRulesReviewStatus resourceRules=1 nonResourceRules=2 incomplete=3 evaluationError=4
ResourceRule verbs=1 apiGroups=2 resources=3 resourceNames=4
NonResourceRule verbs=1 nonResourceURLs=2

[autoscaling]
Scale metadata=1 spec=2 status=3
ScaleSpec replicas=1
ScaleStatus replicas=1 selector=2
"""

Numbers = dict[str, tuple[int, ...]]
"""Where a member is found, by its name: the field, or the way through embedded messages."""


@cache
def table() -> dict[str, Numbers]:
    """Return the numbers of all structs, by full definition name."""
    found: dict[str, Numbers] = {}
    file, current = "", Numbers()
    for line in TEXT.splitlines():
        words = line.split()
        if line.startswith("["):
            file = line.strip("[]")
            continue
        if line and line[0] != " ":
            current = found[notation.short_name(file, words.pop(0))] = {}
        for word in words:
            name, _, number = word.partition("=")
            current[name] = tuple(int(n) for n in number.split("."))
    return found
