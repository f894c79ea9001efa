"""Services of Google that gcloud asks, and that the local cloud does not have.

Each has a property of gcloud for its endpoint (`gcloud topic configurations`, section
api_endpoint_overrides, gcloud 528). Without it, gcloud would ask Google.
"""

OTHER_APIS = tuple(
    """
    accessapproval accesscontextmanager ai aiplatform alloydb anthosevents
    anthospolicycontrollerstatus_pa apigateway apigee apihub apikeys appconfigmanager appengine
    apphub artifactregistry assuredworkloads auditmanager authztoolkit backupdr baremetalsolution
    batch beyondcorp bigquery bigquerymigration bigtableadmin binaryauthorization categorymanager
    certificatemanager cloudaicompanion cloudasset cloudbilling cloudbuild
    cloudcommerceconsumerprocurement clouddebugger clouddeploy clouderrorreporting cloudfunctions
    cloudidentity cloudkms cloudlocationfinder cloudnumberregistry cloudquotas
    cloudresourcesearch cloudscheduler cloudshell cloudtasks cloudtrace composer config
    configdelivery connectgateway container containeranalysis datacatalog dataflow datafusion
    datamigration datapipelines dataplex datapol dataproc dataprocgdc datastore datastream
    deploymentmanager designcenter developerconnect discovery dns domains edgecontainer
    edgenetwork eventarc eventarcpublishing faultinjectiontesting file firebasedataconnect
    firestore geminicloudassist genomics gkebackup gkehub gkemulticloud gkeonprem gkerecommender
    healthcare iamcredentials iap ids krmapihosting kubernetespolicy language lifesciences logging
    looker lustre managedflink managedidentities managedkafka manager marketplacesolutions
    mediaasset memcache memorystore messagestreams metastore ml modelarmor monitoring netapp
    networkconnectivity networkmanagement networksecurity networkservices notebooks observability
    ondemandscanning oracledatabase orglifecycle orgpolicy osconfig parallelstore
    parametermanager policyanalyzer policysimulator policytroubleshooter privateca
    privilegedaccessmanager publicca pubsub pubsublite recaptchaenterprise recommender redis
    remotebuildexecution replicapoolupdater run runapps runtimeconfig saasservicemgmt sasportal
    sddc seclm securesourcemanager securitycenter securitycentermanagement securityposture
    servicedirectory servicemanagement serviceregistry source sourcerepo spanner speech sql
    storagebatchoperations storageinsights stream telcoautomation testing toolresults transcoder
    transfer transferappliance vision vmmigration vmwareengine vpcaccess workflowexecutions
    workflows workloadcertificate workstations
    """.split()  # noqa: SIM905  # 172 names are read more easily as words
)
