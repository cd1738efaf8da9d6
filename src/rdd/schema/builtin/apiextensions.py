# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (one member per line, with its description)
"""Shapes of apiextensions.k8s.io: custom resource definitions and their schemas."""

PACKAGE = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
GROUP = "apiextensions.k8s.io"

TEXT = """
CustomResourceDefinition kind  # Defines a kind of objects.
  spec    CustomResourceDefinitionSpec  !  # What should be served.
  status  CustomResourceDefinitionStatus   # What is served.

CustomResourceDefinitionSpec  # What should be served.
  group                  string  !                                     # API group.
  names                  CustomResourceDefinitionNames  !              # Names of the resource and the kind.
  scope                  ResourceScope(string)  !                      # Cluster or Namespaced.
  versions               []CustomResourceDefinitionVersion  !  atomic  # Versions of the kind.
  conversion             *CustomResourceConversion                     # How versions are converted.
  preserveUnknownFields  bool                                          # Deprecated; must be false.

CustomResourceDefinitionNames  # Names of a resource and its kind.
  plural      string  !         # In URLs.
  singular    string            # On the command line.
  shortNames  []string  atomic  # Abbreviations.
  kind        string  !         # In objects.
  listKind    string            # In lists.
  categories  []string  atomic  # Groups of resources, such as all.

CustomResourceDefinitionVersion  # A version of a kind.
  name                      string  !                                 # Its name.
  served                    bool  !                                   # Whether it can be used.
  storage                   bool  !                                   # Whether objects are stored in it.
  deprecated                bool                                      # Whether clients are warned.
  deprecationWarning        *string                                   # The warning.
  schema                    *CustomResourceValidation                 # Shape of the objects.
  subresources              *CustomResourceSubresources               # Its subresources.
  additionalPrinterColumns  []CustomResourceColumnDefinition  atomic  # Columns of tables.
  selectableFields          []SelectableField  atomic                 # Fields that selectors can use.

CustomResourceValidation  # Shape of objects.
  openAPIV3Schema  *JSONSchemaProps  # An OpenAPI v3 schema.

CustomResourceSubresources  # Subresources of a kind.
  status  *CustomResourceSubresourceStatus  # Status is written separately.
  scale   *CustomResourceSubresourceScale   # Objects can be scaled.

CustomResourceSubresourceStatus  # Settings of the status subresource; there are none.

CustomResourceSubresourceScale  # Where a scale is found in objects.
  specReplicasPath    string  !  # Path of the wanted number.
  statusReplicasPath  string  !  # Path of the actual number.
  labelSelectorPath   *string    # Path of the selector.

CustomResourceColumnDefinition  # A column of tables.
  name         string  !  # Its heading.
  type         string  !  # OpenAPI type of its values.
  format       string     # OpenAPI format of its values.
  description  string     # What it shows.
  priority     int32      # 0 is always shown, others in wide output.
  jsonPath     string  !  # Where the value is.

SelectableField  # A field that selectors can use.
  jsonPath  string  !  # Where the value is.

CustomResourceConversion  # How versions are converted.
  strategy  ConversionStrategyType(string)  !  # None or Webhook.
  webhook   *WebhookConversion                 # The webhook.

WebhookConversion  # A webhook that converts.
  clientConfig              *WebhookClientConfig  # How to reach it.
  conversionReviewVersions  []string  !  atomic   # ConversionReview versions it reads, best first.

WebhookClientConfig  # How to reach a webhook: a URL or a service.
  url       *string            # An https URL.
  service   *ServiceReference  # A service in the cluster.
  caBundle  []byte             # PEM certificates that sign the server's certificate.

ServiceReference  # Names a service.
  namespace  string  !  # Its namespace.
  name       string  !  # Its name.
  path       *string    # URL path of the request.
  port       *int32     # Port, 443 if unset.

CustomResourceDefinitionStatus  # What is served.
  conditions          []CustomResourceDefinitionCondition  =  by=type  # Observations.
  acceptedNames       CustomResourceDefinitionNames  =                 # The names in force.
  storedVersions      []string  =  atomic                              # Versions in which objects were ever stored.
  observedGeneration  int64                                            # The generation that was looked at.

CustomResourceDefinitionCondition  # An observation about a definition.
  type                CustomResourceDefinitionConditionType(string)  !  # Name of the observation.
  status              ConditionStatus(string)  !                        # True, False or Unknown.
  lastTransitionTime  Time                                              # When status last changed.
  reason              string                                            # One word for machines.
  message             string                                            # Details for people.
  observedGeneration  int64                                             # The generation the observation is about.

ExternalDocumentation  # Where to read more.
  description  string
  url          string

ValidationRule  # A CEL rule.
  rule               string  !                                                                                              # CEL that yields true for valid values.
  message            string                                                                                                 # Why a value is invalid.
  messageExpression  string                                                                                                 # CEL that yields the message.
  reason             *FieldValueErrorReason(string)  enum=FieldValueDuplicate|FieldValueForbidden|FieldValueInvalid|FieldValueRequired  # Why, in one word.
  fieldPath          string                                                                                                 # The field to blame.
  optionalOldSelf    *bool                                                                                                  # Whether oldSelf may be missing.

JSONSchemaProps  # A JSON schema.
  id                                    string
  $schema                               JSONSchemaURL(string)
  $ref                                  *string
  description                           string
  type                                  string
  format                                string  # How a string or number is to be read.
  title                                 string
  default                               *JSON  # Value of an unset member.
  maximum                               *float64
  exclusiveMaximum                      bool
  minimum                               *float64
  exclusiveMinimum                      bool
  maxLength                             *int64
  minLength                             *int64
  pattern                               string
  maxItems                              *int64
  minItems                              *int64
  uniqueItems                           bool
  multipleOf                            *float64
  enum                                  []JSON  atomic
  maxProperties                         *int64
  minProperties                         *int64
  required                              []string  atomic
  items                                 *JSONSchemaPropsOrArray
  allOf                                 []JSONSchemaProps  atomic
  oneOf                                 []JSONSchemaProps  atomic
  anyOf                                 []JSONSchemaProps  atomic
  not                                   *JSONSchemaProps
  properties                            map[string]JSONSchemaProps
  additionalProperties                  *JSONSchemaPropsOrBool
  patternProperties                     map[string]JSONSchemaProps
  dependencies                          JSONSchemaDependencies(map[string]JSONSchemaPropsOrStringArray)
  additionalItems                       *JSONSchemaPropsOrBool
  definitions                           JSONSchemaDefinitions(map[string]JSONSchemaProps)
  externalDocs                          *ExternalDocumentation
  example                               *JSON
  nullable                              bool
  x-kubernetes-preserve-unknown-fields  *bool                                    # Keep members that are not declared.
  x-kubernetes-embedded-resource        bool                                     # The value is an object with apiVersion, kind and metadata.
  x-kubernetes-int-or-string            bool                                     # The value is an integer or a string.
  x-kubernetes-list-map-keys            []string  atomic                         # Members that identify an item.
  x-kubernetes-list-type                *string                                  # atomic, set or map.
  x-kubernetes-map-type                 *string                                  # granular or atomic.
  x-kubernetes-validations              ValidationRules([]ValidationRule)  by=rule merge=rule  # CEL rules.
"""
