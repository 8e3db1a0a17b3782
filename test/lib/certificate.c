#include "certificate.h"

#include <stdio.h>
#include <sys/stat.h>

static void certificate_extend(X509 *x509, X509 *issuer, int kind, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, x509, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    assert_non_null(extension);
    assert_true(X509_add_ext(x509, extension, -1));
    X509_EXTENSION_free(extension);
}

struct certificate certificate_make(const struct certificate_wish *wish)
{
    static long serial = 1;
    struct certificate made = {.x509 = X509_new(), .key = EVP_EC_gen("P-256")};
    assert_true(made.x509 && made.key);
    const struct certificate *issuer = wish->issuer ? wish->issuer : &made;
    bool is_default = wish->from_s == 0 && wish->until_s == 0;

    X509_set_version(made.x509, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.x509), serial++);
    X509_gmtime_adj(X509_getm_notBefore(made.x509), is_default ? -3600 : wish->from_s);
    X509_gmtime_adj(X509_getm_notAfter(made.x509), is_default ? 3600 : wish->until_s);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made.x509), "CN", MBSTRING_ASC,
                               (const unsigned char *)wish->name, -1, -1, 0);
    X509_set_issuer_name(made.x509, X509_get_subject_name(issuer->x509));
    X509_set_pubkey(made.x509, made.key);
    if (!wish->issuer || wish->is_authority)
        certificate_extend(made.x509, made.x509, NID_basic_constraints, "critical,CA:TRUE");
    if (wish->names)
        certificate_extend(made.x509, issuer->x509, NID_subject_alt_name, wish->names);
    assert_true(X509_sign(made.x509, issuer->key, EVP_sha256()) > 0);
    return made;
}

void certificate_write(const struct certificate *certificate, const char *x509_path,
                       const char *key_path)
{
    FILE *file = fopen(x509_path, "w");
    assert_non_null(file);
    assert_true(PEM_write_X509(file, certificate->x509));
    assert_int_equal(fclose(file), 0);
    if (!key_path)
        return;
    file = fopen(key_path, "w");
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    assert_true(PEM_write_PrivateKey(file, certificate->key, NULL, NULL, 0, NULL, NULL));
    assert_int_equal(fclose(file), 0);
}

void certificate_deinit(struct certificate *certificate)
{
    X509_free(certificate->x509);
    EVP_PKEY_free(certificate->key);
}
